-- 442 patients with diabetes: what is known of each, as words and as numbers of which some are
-- lost (NULL), and whether the disease then went on faster than for two patients of three.
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE cohort (
	id integer PRIMARY KEY,
	sex text NOT NULL,				-- 1 or 2, as the source has it
	weight text NOT NULL,			-- under, normal, over, obese: by the body mass index
	pressure text NOT NULL,			-- low, medium, high: thirds of the mean blood pressure
	age float8, s1 float8, s2 float8, s3 float8, s4 float8, s5 float8, s6 float8,
	fast text NOT NULL				-- yes or no
);
\copy cohort FROM 'cohort.csv' (FORMAT csv, HEADER)
ANALYZE cohort;

-- Each column is an input of the model's own, text or number; the model encodes the words and
-- fills in the numbers that are NULL.
\set model `pwd` '/model.onnx'
SELECT infer.create_model('progression', :'model');
