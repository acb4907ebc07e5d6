/*
 * cuda_subject.h
 *	  Models that are compared between devices: each with rows of its own, which can be run in any number and order.
 *
 * Nouns
 *	subject		a model of the examples, of the fixtures, or drawn from a seed
 *	row			one of its inputs, by number: 0 … rows − 1; the same on every device
 *	opened		a subject on a device
 *
 * subject_run may be called by several threads at once, each with a queue of its own.
 */
#ifndef TEST_CUDA_SUBJECT_H
#define TEST_CUDA_SUBJECT_H

#include "encoder_fixture.h"
#include "example_rows.h"
#include "row_results.h"
#include "seeded_encoder.h"

#define SUBJECT_ROWS	64			/* at most */
#define SUBJECT_BATCH	257

enum subject_kind
{
	SUBJECT_EXAMPLE, SUBJECT_GRAPH, SUBJECT_TEXT, SUBJECT_SEEDED
};

struct subject
{
	const char *name;
	enum subject_kind kind;
	const char *options;
	const char *host_ops;			/* that the CUDA device leaves to its host; NULL: whatever they are */
	double		difference;			/* from the CPU's that is allowed; see row_results_compare; 0: the same bits */
	double		cosine;				/* not NULL: these vectors may differ as far as that */
	const struct example *example;
	const struct seeded_sizes *sizes;
};

struct opened
{
	const struct subject *subject;
	struct device *device;
	struct fixture table;
	struct encoder_fixture text;
	struct folder_fixture folder;
	struct example example;
	struct model *model;
	uint32_t	rows;
	struct status status;
};

static const char *const subject_texts[] = {
	"a", "the query planner", "", "How do I create a user?", "Straße", "PostgreSQL reads a table; the model reads a text.",
	"who owns the processor", "and the rows are sent in batches", ".", "1 2 3 4 5 6 7 8",
	"An index is a promise that is kept at every insert, and that a reader collects.", "vacuum vacuum vacuum"
};

#define SUBJECT_TEXTS	((uint32_t) (sizeof(subject_texts) / sizeof(subject_texts[0])))

static inline bool
subject_reads_text(const struct subject *s)
{
	return s->kind == SUBJECT_TEXT || s->kind == SUBJECT_SEEDED;
}

/* false: o->status says why; subject_close is due either way. */
static inline bool
subject_open(struct opened *o, const struct subject *s, struct device *device)
{
	char		path[256];

	memset(o, 0, sizeof(*o));
	o->subject = s;
	o->device = device;
	if (s->kind == SUBJECT_SEEDED)
	{
		seeded_encoder(&o->folder, s->sizes, 1);
		o->text.device = device;
		o->text.queue = device->ops->queue_create(device, DEVICE_BATCHES, &o->status);
		o->model = o->text.model = model_open(&o->folder.files, s->options, device, &o->status);
		o->rows = SUBJECT_TEXTS;
	}
	else if (s->kind == SUBJECT_TEXT)
	{
		snprintf(path, sizeof(path), ENCODER_FOLDER "%s", s->name);
		encoder_open_path(&o->text, device, path, s->options);
		o->model = o->text.model;
		o->status = o->text.status;
		o->rows = SUBJECT_TEXTS;
	}
	else
	{
		fixture_device = device;
		fixture_open(&o->table, s->kind == SUBJECT_EXAMPLE ? s->example->model : s->name, s->options);
		o->model = o->table.model;
		o->status = o->table.status;
		o->rows = SUBJECT_ROWS / 2;
	}
	if (s->kind == SUBJECT_EXAMPLE)
	{
		o->example = *s->example;
		example_read(&o->example, SUBJECT_ROWS);
		o->rows = o->example.rows;
	}
	return o->model != NULL;
}

static inline void
subject_close(struct opened *o)
{
	if (o->subject->kind == SUBJECT_SEEDED)
	{
		if (o->model != NULL)
			model_close(o->model);
		o->device->ops->queue_free(o->text.queue);
		folder_clear(&o->folder);
	}
	else if (o->subject->kind == SUBJECT_TEXT)
		encoder_close(&o->text);
	else
		fixture_close(&o->table);
	example_free(&o->example);
	o->model = NULL;
}

static inline struct device_queue *
subject_queue(const struct opened *o)
{
	return subject_reads_text(o->subject) ? o->text.queue : o->table.queue;
}

/* ---- rows ---- */

static inline void
subject_put_table(const struct opened *o, struct fixture *f, uint32_t row, uint32_t from)
{
	uint64_t	state = 88172645463325252u + 7919u * from;

	if (o->subject->kind == SUBJECT_EXAMPLE)
	{
		example_put(&o->example, f, row, from);
		return;
	}
	for (uint32_t i = 0; i < f->model->signature.inputs_count; i++)
		for (uint64_t k = 0; k < f->columns[i].width; k++)
		{
			float		number = seeded_number(&state) * 4;

			number = from % 8 == 7 && k % 3 == 0 ? NAN : from % 4 == 3 ? rintf(number) : number;
			if (f->columns[i].type == INFER_TYPE_F64)
				((double *) fixture_input(f, i))[row * f->columns[i].width + k] = (double) number;
			else
				((float *) fixture_input(f, i))[row * f->columns[i].width + k] = number;
		}
}

static inline void
subject_put_text(const struct opened *o, struct encoder_call_fixture *c, uint32_t row, uint32_t from)
{
	char		text[6 * 512];
	uint64_t	state = 88172645463325252u + 7919u * from;

	if (o->subject->kind == SUBJECT_SEEDED)
	{
		seeded_text(text, 2 + from * from % (o->subject->sizes->places - 2), &state);
		encoder_text(c, ENCODER_INPUT_TEXT, row, text);
		return;
	}
	encoder_text(c, ENCODER_INPUT_TEXT, row, subject_texts[from % SUBJECT_TEXTS]);
	if (o->model->signature.task == INFER_TASK_RERANKER)
		encoder_text(c, ENCODER_INPUT_PAIR, row, subject_texts[(from + 3) % SUBJECT_TEXTS]);
}

/* Rows first … first + count − 1 of a request that has them all, in two slices if parts says so. */
static inline bool
subject_run_request(const struct opened *o, struct model_request *request, struct device_queue *queue, bool parts, struct status *status)
{
	uint32_t	cut = parts ? request->rows / 2 : 0;
	struct model_slice slices[2] = {{request, cut, request->rows - cut}, {request, 0, cut}};

	return o->model->ops->run(o->model, queue, NULL, slices, parts && cut > 0 ? 2 : 1, status);
}

static inline void
subject_take(const struct model_request *request, const struct infer_column *outputs, uint32_t count, struct row_results *results)
{
	for (uint32_t row = 0; row < request->rows; row++)
		results[row] = row_results_take(request->region, outputs, count, row, request->row_status[row]);
}

/* rows[i]: which of the subject's the i-th of the batch is.  false: status says why, and there are no results. */
static inline bool
subject_run(const struct opened *o, struct device_queue *queue, const uint32_t *rows, uint32_t count, bool parts,
			struct row_results *results, struct status *status)
{
	bool		good;

	status_clear(status);
	if (subject_reads_text(o->subject))
	{
		struct encoder_fixture own = o->text;
		struct encoder_call_fixture c;

		encoder_request(&c, &own, count);
		for (uint32_t i = 0; i < count; i++)
			subject_put_text(o, &c, i, rows[i]);
		good = encoder_prepare(&c) && subject_run_request(o, &c.request, queue, parts, status);
		if (good)
			subject_take(&c.request, c.outputs, o->model->signature.outputs_count, results);
		else if (status->error == INFER_OK)
			*status = own.status;
		encoder_release(&c);
	}
	else
	{
		struct fixture own = o->table;

		own.region = aligned_alloc(64, FIXTURE_REGION);
		fixture_rows(&own, count);
		for (uint32_t i = 0; i < count; i++)
			subject_put_table(o, &own, i, rows[i]);
		good = fixture_layout(&own) && subject_run_request(o, &own.request, queue, parts, status);
		if (good)
			subject_take(&own.request, own.outputs, o->model->signature.outputs_count, results);
		free(own.region);
	}
	return good;
}

/* Each row by itself, or all of them together; results: o->rows of them. */
static inline bool
subject_run_all(struct opened *o, bool alone, struct row_results *results)
{
	uint32_t	rows[SUBJECT_ROWS] = {0};
	bool		good = true;

	for (uint32_t i = 0; i < o->rows; i++)
		rows[i] = i;
	if (!alone)
		return subject_run(o, subject_queue(o), rows, o->rows, false, results, &o->status);
	for (uint32_t i = 0; good && i < o->rows; i++)
		good = subject_run(o, subject_queue(o), &rows[i], 1, false, &results[i], &o->status);
	return good;
}

/* A batch whose rows go through the subject's by a step; how many of them have not the expected bits: all, if it failed. */
static inline uint32_t
subject_differing(const struct opened *o, struct device_queue *queue, const struct row_results *expected, uint32_t count, uint32_t step,
				  bool parts, struct status *status)
{
	uint32_t	rows[SUBJECT_BATCH] = {0};
	struct row_results got[SUBJECT_BATCH] = {{0}};
	uint32_t	bad = 0;

	for (uint32_t i = 0; i < count; i++)
		rows[i] = (i * step + step / 3) % o->rows;
	if (!subject_run(o, queue, rows, count, parts, got, status))
		return count;
	for (uint32_t i = 0; i < count; i++)
	{
		bad += !row_results_same(&got[i], &expected[rows[i]]);
		row_results_free(&got[i]);
	}
	return bad;
}

static inline void
subject_free_results(struct row_results *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		row_results_free(&results[i]);
}

#endif							/* TEST_CUDA_SUBJECT_H */
