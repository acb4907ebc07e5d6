-- 442 patients: ten scaled measurements, and how far their diabetes went within a year.
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE patients (
	id integer PRIMARY KEY,
	age float8, sex float8, bmi float8, bp float8, s1 float8, s2 float8, s3 float8,
	s4 float8, s5 float8, s6 float8,
	progression float8 NOT NULL		-- measured a year later
);
\copy patients FROM 'patients.csv' (FORMAT csv, HEADER)
ANALYZE patients;

\set model `pwd` '/model.onnx'
SELECT infer.create_model('diabetes', :'model', $$
    {"features": ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]}$$);
