-- 400 packages of Debian 12: the section each is in, and what its maintainers say it is.
-- Run in this folder; the model is put together by script/fetch-models, and the server must be able to read it:
-- psql -v model="$(../../script/fetch-models --folder sections)" -f load.sql

CREATE TABLE packages (
	package text PRIMARY KEY,
	section text NOT NULL,
	description text NOT NULL
);
\copy packages FROM 'packages.tsv' (HEADER)
ANALYZE packages;

SELECT infer.create_model('sections', :'model');
