/*
 * encoding.c
 *	  The bounded encoding of what frames carry: numbers, texts, errors.
 *
 * Nouns
 *	writer, reader	cursors over a buffer that never leave it; the first thing that does not
 *					fit sets failed, and everything after it is a no-op, so that callers check
 *					once, at the end
 *
 * The encoding is little-endian on every machine.  Nothing here allocates or aborts.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol.h"

/* ---- writing ---- */

void
infer_put_bytes(struct infer_writer *w, const void *data, size_t length)
{
	if (w->failed || length > w->size - w->used)
	{
		w->failed = 1;
		return;
	}
	if (length > 0)
		memcpy(w->data + w->used, data, length);
	w->used += length;
}

void
infer_put_u32(struct infer_writer *w, uint32_t value)
{
	uint8_t		bytes[4];

	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t) (value >> (8 * i));
	infer_put_bytes(w, bytes, sizeof(bytes));
}

void
infer_put_u64(struct infer_writer *w, uint64_t value)
{
	infer_put_u32(w, (uint32_t) value);
	infer_put_u32(w, (uint32_t) (value >> 32));
}

void
infer_put_string(struct infer_writer *w, const char *text, size_t length)
{
	if (length > UINT32_MAX)
	{
		w->failed = 1;
		return;
	}
	infer_put_u32(w, (uint32_t) length);
	infer_put_bytes(w, text, length);
}

/* ---- reading ---- */

const uint8_t *
infer_get_bytes(struct infer_reader *r, size_t length)
{
	const uint8_t *bytes;

	if (r->failed || length > r->size - r->used)
	{
		r->failed = 1;
		return NULL;
	}
	bytes = r->data + r->used;
	r->used += length;
	return bytes;
}

uint32_t
infer_get_u32(struct infer_reader *r)
{
	const uint8_t *bytes = infer_get_bytes(r, 4);
	uint32_t	value = 0;

	if (bytes == NULL)
		return 0;
	for (int i = 0; i < 4; i++)
		value |= (uint32_t) bytes[i] << (8 * i);
	return value;
}

uint64_t
infer_get_u64(struct infer_reader *r)
{
	uint64_t	low = infer_get_u32(r);
	uint64_t	high = infer_get_u32(r);

	return r->failed ? 0 : low | high << 32;
}

const char *
infer_get_string(struct infer_reader *r, uint32_t *length)
{
	uint32_t	n = infer_get_u32(r);
	const uint8_t *bytes = infer_get_bytes(r, n);

	*length = bytes != NULL ? n : 0;
	return (const char *) bytes;
}

/* ---- errors ---- */

/* A C string cut to fit a fixed field, at a character's border (UTF-8). */
static void
put_text_cut(struct infer_writer *w, const char *text, size_t max)
{
	size_t		length = text != NULL ? strlen(text) : 0;

	if (length > max)
	{
		length = max;
		while (length > 0 && ((unsigned char) text[length] & 0xC0) == 0x80)
			length--;
	}
	infer_put_string(w, text, length);
}

void
infer_put_error(struct infer_writer *w, uint32_t error, const char *message,
				const char *detail, const char *hint)
{
	infer_put_u32(w, error);
	put_text_cut(w, message, INFER_MESSAGE_MAX - 1);
	put_text_cut(w, detail, INFER_MESSAGE_MAX - 1);
	put_text_cut(w, hint, INFER_MESSAGE_MAX - 1);
}

static void
get_text_field(struct infer_reader *r, char field[INFER_MESSAGE_MAX])
{
	uint32_t	length;
	const char *text = infer_get_string(r, &length);

	if (text == NULL || length >= INFER_MESSAGE_MAX || memchr(text, 0, length) != NULL)
	{
		r->failed = 1;
		return;
	}
	memcpy(field, text, length);
	field[length] = '\0';
}

int
infer_get_error(struct infer_reader *r, struct infer_error_text *out)
{
	memset(out, 0, sizeof(*out));
	out->error = infer_get_u32(r);
	get_text_field(r, out->message);
	get_text_field(r, out->detail);
	get_text_field(r, out->hint);
	if (r->failed || out->error == INFER_OK || out->error > INFER_ERROR_LAST)
	{
		r->failed = 1;
		return -1;
	}
	return 0;
}
