-- The examples' models over the examples' tables, against what onnxruntime says of each row.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set folder :srcdir/../examples/breast_cancer
\cd :folder
\set columns `head -1 tumours.csv | sed 's/,/ float8, /g; s/$/ text/'`
CREATE TABLE tumours (:columns);
\copy tumours FROM 'tumours.csv' (FORMAT csv, HEADER)
CREATE TABLE tumours_expected (id float8, label text, probabilities jsonb);
\copy tumours_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT jsonb_build_object('features', jsonb_agg(attname ORDER BY attnum)) AS options FROM pg_attribute WHERE attrelid = 'tumours'::regclass AND attnum BETWEEN 2 AND 31 \gset
SELECT infer.create_model('tumour', data => decode(:'content', 'base64'), options => :'options') \gset

\set folder :srcdir/../examples/diabetes
\cd :folder
\set columns `head -1 patients.csv | sed 's/,/ float8, /g; s/$/ float8/'`
CREATE TABLE patients (:columns);
\copy patients FROM 'patients.csv' (FORMAT csv, HEADER)
CREATE TABLE patients_expected (id float8, prediction float8);
\copy patients_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT infer.create_model('diabetes', data => decode(:'content', 'base64'), options => '{"features": ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]}') \gset

\set folder :srcdir/../examples/digits
\cd :folder
CREATE TABLE digits (id int, pixels smallint[], digit int);
\copy digits FROM 'digits.csv' (FORMAT csv, HEADER)
CREATE TABLE digits_expected (id float8, label text, probabilities jsonb);
\copy digits_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT infer.create_model('digit', data => decode(:'content', 'base64')) \gset

\set folder :srcdir/../examples/wine
\cd :folder
\set columns `head -1 wines.csv | sed 's/,/ float8, /g; s/$/ text/'`
CREATE TABLE wines (:columns);
\copy wines FROM 'wines.csv' (FORMAT csv, HEADER)
CREATE TABLE wines_expected (id float8, label text, probabilities jsonb);
\copy wines_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT infer.create_model('wine', data => decode(:'content', 'base64')) \gset

\set folder :srcdir/../examples/iris
\cd :folder
\set columns `head -1 flowers.csv | sed 's/,/ float8, /g; s/$/ text/'`
CREATE TABLE flowers (:columns);
\copy flowers FROM 'flowers.csv' (FORMAT csv, HEADER)
CREATE TABLE flowers_expected (id float8, label text, probabilities jsonb);
\copy flowers_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT infer.create_model('iris', data => decode(:'content', 'base64')) \gset

\set folder :srcdir/../examples/progression
\cd :folder
CREATE TABLE cohort (id int, sex text, weight text, pressure text, age float8, s1 float8, s2 float8, s3 float8, s4 float8, s5 float8, s6 float8, fast text);
\copy cohort FROM 'cohort.csv' (FORMAT csv, HEADER)
CREATE TABLE cohort_expected (id int, label text, probabilities jsonb);
\copy cohort_expected FROM 'expected.csv' (FORMAT csv, HEADER)
\set content `base64 -w0 model.onnx`
SELECT infer.create_model('progression', data => decode(:'content', 'base64')) \gset
CREATE FUNCTION furthest(a jsonb, b jsonb) RETURNS float8 LANGUAGE sql IMMUTABLE AS
	'SELECT max(abs(value::float8 - (b ->> key)::float8)) FROM jsonb_each_text(a)';
\set ECHO all

-- a classifier with 30 named features: rows by name, whatever else the table has
SELECT count(*), count(*) FILTER (WHERE infer.classify('tumour', t) = label) AS same_label, max(furthest(infer.probabilities('tumour', t), probabilities)) < 1e-5 AS close FROM tumours t JOIN tumours_expected USING (id);
SELECT id, infer('tumour', t) -> 'label' AS label FROM tumours t ORDER BY id LIMIT 3;
SELECT count(*) FROM tumours t JOIN tumours_expected USING (id) WHERE abs(infer.probability('tumour', 'malignant', t) - (infer('tumour', t) -> 'probabilities' ->> 'malignant')::float8) > 1e-7;
ALTER TABLE tumours ADD COLUMN label text;
UPDATE tumours SET label = infer.classify('tumour', tumours);
SELECT count(*) FROM tumours t JOIN tumours_expected e USING (id) WHERE t.label IS DISTINCT FROM e.label;

-- a regression: one by one, as an array, as an object, as a row; the same bits
SELECT count(*), max(abs(infer.predict('diabetes', age, sex, bmi, bp, s1, s2, s3, s4, s5, s6) - prediction)) < 1e-3 AS close FROM patients JOIN patients_expected USING (id);
SELECT count(*) FROM patients p WHERE infer.predict('diabetes', age, sex, bmi, bp, s1, s2, s3, s4, s5, s6) = infer.predict('diabetes', ARRAY[age, sex, bmi, bp, s1, s2, s3, s4, s5, s6]) AND infer.predict('diabetes', p) = infer.predict('diabetes', to_jsonb(p)) AND infer.predict('diabetes', p) = infer.predict('diabetes', ARRAY[age, sex, bmi, bp, s1, s2, s3, s4, s5, s6]);

-- a network with integer labels: an array of integers
SELECT count(*), count(*) FILTER (WHERE infer.classify('digit', pixels) = label) AS same_label, max(furthest(infer.probabilities('digit', pixels), probabilities)) < 1e-5 AS close FROM digits JOIN digits_expected USING (id) WHERE id <= 400;

-- one input for each column, and an imputer: NULL is a missing value
SELECT count(*), count(*) FILTER (WHERE infer.classify('wine', w) = label) AS same_label, max(furthest(infer.probabilities('wine', w), probabilities)) < 1e-5 AS close FROM wines w JOIN wines_expected USING (id);
SELECT count(*) > 0 AS has_missing FROM wines WHERE num_nulls(alcohol, malic_acid, ash, alcalinity_of_ash, magnesium, total_phenols, flavanoids, nonflavanoid_phenols, proanthocyanins, color_intensity, hue, od280_od315, proline) > 0;

-- a random forest, whose own properties name its features: a row, and one by one
SELECT count(*), count(*) FILTER (WHERE infer.classify('iris', f) = label) AS same_label, max(furthest(infer.probabilities('iris', f), probabilities)) < 1e-6 AS close FROM flowers f JOIN flowers_expected USING (id);
SELECT count(*) FROM flowers f WHERE infer.probability('iris', 'virginica', f) = infer.probability('iris', 'virginica', sepal_length, sepal_width, petal_length, petal_width);

-- boosted trees over columns of text and of numbers, some of them missing; a word that the encoder has not seen is none of its words
SELECT count(*), count(*) FILTER (WHERE infer.classify('progression', c) = label) AS same_label, max(furthest(infer.probabilities('progression', c), probabilities)) < 1e-6 AS close FROM cohort c JOIN cohort_expected USING (id);
SELECT count(*) > 0 AS has_missing FROM cohort WHERE num_nulls(age, s1, s2, s3, s4, s5, s6) > 0;
SELECT count(*) BETWEEN 10 AND 200 AS some, bool_and((e.probabilities ->> 'yes')::float8 > 0.8) AS right FROM cohort c JOIN cohort_expected e USING (id) WHERE infer.probability('progression', 'yes', c) > 0.8;
SELECT round(infer.probability('progression', 'yes', c)::numeric, 4) AS obese, round(infer.probability('progression', 'yes', to_jsonb(c) || '{"weight": "unheard of"}')::numeric, 4) AS unheard_of FROM cohort c WHERE id = 1;		-- onnxruntime: 0.3268, 0.3557

\set ECHO none
SELECT infer.drop_model('iris'), infer.drop_model('progression'), infer.drop_model('wine'), infer.drop_model('tumour'), infer.drop_model('diabetes'), infer.drop_model('digit') \gset
DROP TABLE flowers, flowers_expected, cohort, cohort_expected, wines, wines_expected, tumours, tumours_expected, patients, patients_expected, digits, digits_expected;
DROP FUNCTION furthest;
