-- 150 irises of three species: the lengths and widths of their leaves, in centimetres.
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE flowers (
	id integer PRIMARY KEY,
	sepal_length float8, sepal_width float8, petal_length float8, petal_width float8,
	species text NOT NULL
);
\copy flowers FROM 'flowers.csv' (FORMAT csv, HEADER)
ANALYZE flowers;

-- The model's own properties name its four features.
\set model `pwd` '/model.onnx'
SELECT infer.create_model('iris', :'model');
