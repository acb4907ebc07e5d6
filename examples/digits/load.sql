-- 1,797 handwritten digits: images of 8 x 8 pixels from 0 (white) to 16 (black).
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE digits (
	id integer PRIMARY KEY,
	pixels smallint[] NOT NULL,		-- 64 of them, row by row
	digit integer NOT NULL			-- what was meant
);
\copy digits FROM 'digits.csv' (FORMAT csv, HEADER)
ANALYZE digits;

\set model `pwd` '/model.onnx'
SELECT infer.create_model('digit', :'model');
