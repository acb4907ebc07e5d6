-- 178 wines of three cultivars: 13 chemical measurements, some of them lost (NULL).
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE wines (
	id integer PRIMARY KEY,
	alcohol float8, malic_acid float8, ash float8, alcalinity_of_ash float8,
	magnesium float8, total_phenols float8, flavanoids float8, nonflavanoid_phenols float8,
	proanthocyanins float8, color_intensity float8, hue float8, od280_od315 float8,
	proline float8,
	cultivar text NOT NULL
);
\copy wines FROM 'wines.csv' (FORMAT csv, HEADER)
ANALYZE wines;

-- Each column is an input of the model's own, so nothing needs to be said about names; the
-- model has an imputer, so a NULL is a missing value.
\set model `pwd` '/model.onnx'
SELECT infer.create_model('wine', :'model');
