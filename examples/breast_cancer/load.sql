-- 569 breast tumours: 30 measurements of cell nuclei, and what they turned out to be.
-- Run in this folder, which the server must be able to read: psql -f load.sql

CREATE TABLE tumours (
	id integer PRIMARY KEY,
	mean_radius float8, mean_texture float8, mean_perimeter float8, mean_area float8,
	mean_smoothness float8, mean_compactness float8, mean_concavity float8,
	mean_concave_points float8, mean_symmetry float8, mean_fractal_dimension float8,
	radius_error float8, texture_error float8, perimeter_error float8, area_error float8,
	smoothness_error float8, compactness_error float8, concavity_error float8,
	concave_points_error float8, symmetry_error float8, fractal_dimension_error float8,
	worst_radius float8, worst_texture float8, worst_perimeter float8, worst_area float8,
	worst_smoothness float8, worst_compactness float8, worst_concavity float8,
	worst_concave_points float8, worst_symmetry float8, worst_fractal_dimension float8,
	diagnosis text NOT NULL,		-- what the pathologist found
	label text						-- what the model says
);
\copy tumours (id, mean_radius, mean_texture, mean_perimeter, mean_area, mean_smoothness, mean_compactness, mean_concavity, mean_concave_points, mean_symmetry, mean_fractal_dimension, radius_error, texture_error, perimeter_error, area_error, smoothness_error, compactness_error, concavity_error, concave_points_error, symmetry_error, fractal_dimension_error, worst_radius, worst_texture, worst_perimeter, worst_area, worst_smoothness, worst_compactness, worst_concavity, worst_concave_points, worst_symmetry, worst_fractal_dimension, diagnosis) FROM 'tumours.csv' (FORMAT csv, HEADER)
ANALYZE tumours;

-- The model has one input of 30 numbers, so its options say which column is which.
\set model `pwd` '/model.onnx'
SELECT infer.create_model('tumour', :'model', $$
    {"features": [
        "mean_radius", "mean_texture", "mean_perimeter", "mean_area", "mean_smoothness",
        "mean_compactness", "mean_concavity", "mean_concave_points", "mean_symmetry",
        "mean_fractal_dimension", "radius_error", "texture_error", "perimeter_error",
        "area_error", "smoothness_error", "compactness_error", "concavity_error",
        "concave_points_error", "symmetry_error", "fractal_dimension_error", "worst_radius",
        "worst_texture", "worst_perimeter", "worst_area", "worst_smoothness",
        "worst_compactness", "worst_concavity", "worst_concave_points", "worst_symmetry",
        "worst_fractal_dimension"
    ]}$$);
