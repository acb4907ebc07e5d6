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

\set ECHO none
SELECT infer.drop_model('wine'), infer.drop_model('tumour'), infer.drop_model('diabetes'), infer.drop_model('digit') \gset
DROP TABLE wines, wines_expected, tumours, tumours_expected, patients, patients_expected, digits, digits_expected;
DROP FUNCTION furthest;
