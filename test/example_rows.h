/*
 * example_rows.h
 *	  The rows of the example models (examples/), as a request's inputs: read from the CSV file beside a model.
 *
 * The first column is the row's id, the last its true answer.  A model of one wide input takes the columns between in their
 * order, one of several inputs the columns of their names.
 */
#ifndef TEST_EXAMPLE_ROWS_H
#define TEST_EXAMPLE_ROWS_H

#include "unit/graph_fixture.h"

#define EXAMPLE_FIELDS	80

struct example						/* a table in memory */
{
	const char *model;				/* path */
	const char *csv;
	char	   *text;
	uint32_t	rows;
	uint32_t	columns;
	char	   *names[EXAMPLE_FIELDS];
	char	 ***fields;				/* [row][column]; of an array each element is one */
};

/* Cuts a line at its commas; quotes and braces go.  Returns how many fields there are. */
static inline uint32_t
example_split(char *line, char **fields)
{
	uint32_t	count = 0;

	for (char *at = line; at != NULL && count < EXAMPLE_FIELDS;)
	{
		char	   *comma = strchr(at, ',');

		if (comma != NULL)
			*comma++ = '\0';
		at += strspn(at, "\"{");
		at[strcspn(at, "\"}\r")] = '\0';
		fields[count++] = at;
		at = comma;
	}
	return count;
}

/* At most so many rows. */
static inline void
example_read(struct example *e, uint32_t most)
{
	FILE	   *file = fopen(e->csv, "r");
	char	   *save = NULL;
	long		size;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
	{
		fprintf(stderr, "cannot open %s: run from the repository's root\n", e->csv);
		exit(1);
	}
	rewind(file);
	e->text = calloc(1, (size_t) size + 1);
	size = (long) fread(e->text, 1, (size_t) size, file);
	fclose(file);
	e->columns = example_split(strtok_r(e->text, "\n", &save), e->names);
	e->fields = calloc(most, sizeof(*e->fields));
	for (char *line = strtok_r(NULL, "\n", &save); line != NULL && e->rows < most; line = strtok_r(NULL, "\n", &save))
	{
		e->fields[e->rows] = calloc(EXAMPLE_FIELDS, sizeof(char *));
		example_split(line, e->fields[e->rows++]);
	}
}

static inline void
example_free(struct example *e)
{
	for (uint32_t r = 0; r < e->rows; r++)
		free(e->fields[r]);
	free(e->fields);
	free(e->text);
	e->fields = NULL;
	e->text = NULL;
	e->rows = 0;
}

/* One of the table's rows becomes the row-th of a request. */
static inline void
example_put(const struct example *e, struct fixture *f, uint32_t row, uint32_t from)
{
	const struct infer_signature *signature = &f->model->signature;

	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		uint64_t	width = f->columns[i].width;
		uint32_t	column = 1;

		for (uint32_t c = 0; signature->inputs_count > 1 && c < e->columns; c++)
			if (strcmp(e->names[c], signature->inputs[i].name) == 0)
				column = c;
		for (uint64_t k = 0; k < width; k++)
		{
			const char *field = e->fields[from][column + k];

			if (f->columns[i].type == INFER_TYPE_STRING)
				fixture_text(f, i, row, field);
			else
				((float *) fixture_input(f, i))[row * width + k] = field[0] == '\0' ? NAN : strtof(field, NULL);
		}
	}
}

#define EXAMPLES_COUNT	6

static const struct example examples[EXAMPLES_COUNT] __attribute__((unused)) = {
	{.model = "examples/breast_cancer/model.onnx", .csv = "examples/breast_cancer/tumours.csv"},
	{.model = "examples/diabetes/model.onnx", .csv = "examples/diabetes/patients.csv"},
	{.model = "examples/digits/model.onnx", .csv = "examples/digits/digits.csv"},
	{.model = "examples/iris/model.onnx", .csv = "examples/iris/flowers.csv"},
	{.model = "examples/progression/model.onnx", .csv = "examples/progression/cohort.csv"},
	{.model = "examples/wine/model.onnx", .csv = "examples/wine/wines.csv"}
};

#endif							/* TEST_EXAMPLE_ROWS_H */
