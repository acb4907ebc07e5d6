/*
 * signature.c
 *	  A model's signature, encoded: what LOADED carries.
 *
 * Memory for what is read is the caller's, by a function of his that does not fail.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol.h"

/* ---- writing ---- */

/* A C string; NULL is written as the empty one. */
static void
put_text(struct infer_writer *w, const char *text)
{
	infer_put_string(w, text, text != NULL ? strlen(text) : 0);
}

static void
put_tensors(struct infer_writer *w, const struct infer_tensor *tensors, uint32_t count)
{
	infer_put_u32(w, count);
	for (uint32_t i = 0; i < count; i++)
	{
		const struct infer_tensor *t = &tensors[i];

		put_text(w, t->name);
		infer_put_u32(w, t->type);
		infer_put_u32(w, t->role);
		infer_put_u32(w, t->flags);
		infer_put_u32(w, t->rank);
		for (uint32_t d = 0; d < t->rank && d < INFER_RANK_MAX; d++)
			infer_put_u64(w, (uint64_t) t->dims[d]);
	}
}

static void
put_texts(struct infer_writer *w, char *const *texts, uint32_t count)
{
	infer_put_u32(w, count);
	for (uint32_t i = 0; i < count; i++)
		put_text(w, texts[i]);
}

void
infer_put_signature(struct infer_writer *w, const struct infer_signature *signature)
{
	infer_put_u32(w, signature->task);
	infer_put_u32(w, signature->flags);
	infer_put_u64(w, signature->bytes);
	infer_put_u64(w, signature->alone_nsec);
	infer_put_u64(w, signature->row_nsec);
	put_text(w, signature->kind);
	put_text(w, signature->format);
	put_text(w, signature->notes);
	put_text(w, signature->facts);
	put_tensors(w, signature->inputs, signature->inputs_count);
	put_tensors(w, signature->outputs, signature->outputs_count);
	put_texts(w, signature->classes, signature->classes_count);
	put_texts(w, signature->features, signature->features_count);
}

/* ---- reading ---- */

struct decoder						/* where infer_get_signature reads, and whose memory it fills */
{
	struct infer_reader *r;
	void	   *(*alloc) (void *arg, size_t bytes);
	void	   *arg;
};

/* A string of at most max bytes as a C string; an embedded zero is malformed. */
static char *
get_text(struct decoder *d, uint32_t max)
{
	uint32_t	length;
	const char *text = infer_get_string(d->r, &length);
	char	   *copy;

	if (text == NULL || length > max || memchr(text, 0, length) != NULL)
	{
		d->r->failed = 1;
		return NULL;
	}
	copy = d->alloc(d->arg, (size_t) length + 1);
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

static void
get_tensor(struct decoder *d, struct infer_tensor *t)
{
	memset(t, 0, sizeof(*t));
	t->name = get_text(d, INFER_NAME_MAX);
	t->type = infer_get_u32(d->r);
	t->role = infer_get_u32(d->r);
	t->flags = infer_get_u32(d->r);
	t->rank = infer_get_u32(d->r);
	if (t->type == INFER_TYPE_NONE || t->type > INFER_TYPE_LAST ||
		t->role > INFER_ROLE_LAST || t->rank > INFER_RANK_MAX)
	{
		d->r->failed = 1;
		return;
	}
	for (uint32_t i = 0; i < t->rank; i++)
		t->dims[i] = (int64_t) infer_get_u64(d->r);
	if (infer_dims_check(t->dims, t->rank) != NULL)
		d->r->failed = 1;
}

static struct infer_tensor *
get_tensors(struct decoder *d, uint32_t *count)
{
	uint32_t	n = infer_get_u32(d->r);
	struct infer_tensor *tensors;

	*count = 0;
	if (d->r->failed || n > INFER_COLUMNS_MAX)
	{
		d->r->failed = 1;
		return NULL;
	}
	if (n == 0)
		return NULL;
	tensors = d->alloc(d->arg, n * sizeof(*tensors));
	for (uint32_t i = 0; i < n && !d->r->failed; i++)
		get_tensor(d, &tensors[i]);
	if (d->r->failed)
		return NULL;
	*count = n;
	return tensors;
}

static char **
get_texts(struct decoder *d, uint32_t *count)
{
	uint32_t	n = infer_get_u32(d->r);
	char	  **texts;

	*count = 0;

	/* each takes four bytes at least: a count cannot ask for more memory than it brings */
	if (d->r->failed || n > (d->r->size - d->r->used) / 4)
	{
		d->r->failed = 1;
		return NULL;
	}
	if (n == 0)
		return NULL;
	texts = d->alloc(d->arg, n * sizeof(*texts));
	for (uint32_t i = 0; i < n && !d->r->failed; i++)
		texts[i] = get_text(d, INFER_FRAME_MAX);
	if (d->r->failed)
		return NULL;
	*count = n;
	return texts;
}

int
infer_get_signature(struct infer_reader *r, struct infer_signature *out,
					void *(*alloc) (void *arg, size_t bytes), void *arg)
{
	struct decoder d = {r, alloc, arg};

	memset(out, 0, sizeof(*out));
	out->task = infer_get_u32(r);
	out->flags = infer_get_u32(r);
	out->bytes = infer_get_u64(r);
	out->alone_nsec = infer_get_u64(r);
	out->row_nsec = infer_get_u64(r);
	if (out->task > INFER_TASK_LAST)
		r->failed = 1;
	out->kind = get_text(&d, INFER_NAME_MAX);
	out->format = get_text(&d, INFER_FRAME_MAX);
	out->notes = get_text(&d, INFER_FRAME_MAX);
	out->facts = get_text(&d, INFER_FRAME_MAX);
	out->inputs = get_tensors(&d, &out->inputs_count);
	out->outputs = get_tensors(&d, &out->outputs_count);
	out->classes = get_texts(&d, &out->classes_count);
	out->features = get_texts(&d, &out->features_count);
	return r->failed ? -1 : 0;
}
