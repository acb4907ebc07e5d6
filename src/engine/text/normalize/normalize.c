/*
 * normalize.c
 *	  A text through the steps of its normalizer.
 *
 * BERT's step, which is several in one, reads the text itself (bert.c).  Every other one reads
 * what the step before it made, and writes it anew.
 */
#include "../text_internal.h"

#include <string.h>

/* ---- rewriting ---- */

bool
rewrite_begin(struct tokenizer_arena *arena, struct rewriting *rewriting)
{
	*rewriting = (struct rewriting) {&arena->buffer, &arena->other, 0};
	arena->other.used = 0;
	return arena->other.space >= arena->buffer.used || arena_grow_buffer(arena, &arena->other, arena->buffer.used);
}

void
rewrite_end(struct tokenizer_arena *arena, struct rewriting *rewriting)
{
	struct text_buffer swapped = arena->buffer;

	arena->buffer = arena->other;
	arena->other = swapped;
}

/* The first byte behind so many characters of what is rewritten. */
static uint32_t
skip_characters(const struct text_buffer *in, uint32_t at, uint32_t count)
{
	while (count > 0 && at < in->used)
	{
		at++;
		while (at < in->used && utf8_continues(in->bytes[at]))
			at++;
		count--;
	}
	return at;
}

bool
rewrite_put(struct tokenizer_arena *arena, struct rewriting *rewriting, uint32_t point, int32_t change)
{
	const struct text_buffer *in = rewriting->in;
	uint32_t	origin = 0;

	if (change > 0)
	{
		if (rewriting->at > 0)
			origin = in->origins[rewriting->at - 1];
	}
	else
	{
		if (rewriting->at < in->used)
			origin = in->origins[rewriting->at];
		rewriting->at = skip_characters(in, rewriting->at, 1 + (uint32_t) -change);
	}
	return text_put(arena, rewriting->out, point, origin);
}

/* ---- steps ---- */

static bool
text_copy(struct tokenizer_arena *arena, const uint8_t *text, size_t size, uint32_t character)
{
	struct text_buffer *buffer = &arena->buffer;
	uint32_t	origin = character - 1;

	if (buffer->space < size && !arena_grow_buffer(arena, buffer, (uint32_t) size))
		return false;
	memcpy(buffer->bytes, text, size);
	for (size_t i = 0; i < size; i++)
	{
		origin += !utf8_continues(text[i]);
		buffer->origins[i] = origin;
	}
	buffer->used = (uint32_t) size;
	return true;
}

static bool
step_lowercase(struct tokenizer_arena *arena)
{
	struct rewriting rewriting;
	bool		good = rewrite_begin(arena, &rewriting);

	for (uint32_t at = 0, length; good && at < rewriting.in->used; at += length)
	{
		uint32_t	to[UNICODE_MAPPED_MAX], count = 1;

		to[0] = utf8_decode(rewriting.in->bytes + at, &length);
		if ((unicode_flags(to[0]) & UNICODE_LOWERS) != 0)
			count = unicode_lower(to[0], to);
		for (uint32_t i = 0; good && i < count; i++)
			good = rewrite_put(arena, &rewriting, to[i], i > 0);
	}
	rewrite_end(arena, &rewriting);
	return good;
}

/* What stays keeps its origin. */
static bool
step_strip_accents(struct tokenizer_arena *arena)
{
	struct text_buffer *buffer = &arena->buffer;
	uint32_t	used = 0;

	for (uint32_t at = 0, length; at < buffer->used; at += length)
	{
		uint32_t	point = utf8_decode(buffer->bytes + at, &length);

		if ((unicode_flags(point) & UNICODE_COMBINING) != 0)
			continue;
		memmove(buffer->bytes + used, buffer->bytes + at, length);
		memmove(buffer->origins + used, buffer->origins + at, length * sizeof(*buffer->origins));
		used += length;
	}
	buffer->used = used;
	return true;
}

static bool
step_strip(struct tokenizer_arena *arena, const struct normalizer *step)
{
	struct text_buffer *buffer = &arena->buffer;
	uint32_t	start = 0, end = buffer->used, length;

	while (step->left && start < end && (unicode_flags(utf8_decode(buffer->bytes + start, &length)) & UNICODE_SPACE) != 0)
		start += length;
	while (step->right && end > start && (unicode_flags(utf8_before(buffer->bytes + end, &length)) & UNICODE_SPACE) != 0)
		end -= length;
	memmove(buffer->bytes, buffer->bytes + start, end - start);
	memmove(buffer->origins, buffer->origins + start, (end - start) * sizeof(*buffer->origins));
	buffer->used = end - start;
	return true;
}

/* Text that is new has the origin of what it stands before. */
static bool
step_prepend(struct tokenizer_arena *arena, const struct normalizer *step)
{
	struct text_buffer *buffer = &arena->buffer;
	uint32_t	length = (uint32_t) strlen(step->content);

	if (buffer->used == 0)
		return true;
	if (buffer->space - buffer->used < length && !arena_grow_buffer(arena, buffer, buffer->used + length))
		return false;
	memmove(buffer->bytes + length, buffer->bytes, buffer->used);
	memmove(buffer->origins + length, buffer->origins, buffer->used * sizeof(*buffer->origins));
	memcpy(buffer->bytes, step->content, length);
	for (uint32_t i = 0; i < length; i++)
		buffer->origins[i] = buffer->origins[length];
	buffer->used += length;
	return true;
}

static bool
find_replaced(const struct normalizer *step, const struct text_buffer *in, uint32_t at, uint32_t *start, uint32_t *stop)
{
	const uint8_t *found;
	size_t		length;

	if (step->kind == NORMALIZE_REPLACE_CLASS)
		return class_next(&step->class, in->bytes, at, in->used, start, stop);
	length = strlen(step->pattern);
	found = memmem(in->bytes + at, in->used - at, step->pattern, length);
	if (found == NULL)
		return false;
	*start = (uint32_t) (found - in->bytes);
	*stop = *start + (uint32_t) length;
	return true;
}

/* Text that is new has the origin of the last character of what it replaces. */
static bool
step_replace(struct tokenizer_arena *arena, const struct normalizer *step)
{
	struct rewriting rewriting;
	uint32_t	content = (uint32_t) strlen(step->content);
	struct text_buffer *out = &arena->other;
	const struct text_buffer *in = &arena->buffer;
	uint32_t	at = 0, start, stop;

	if (!rewrite_begin(arena, &rewriting))
		return false;
	while (at < in->used)
	{
		bool		found = find_replaced(step, in, at, &start, &stop);
		uint32_t	kept = (found ? start : in->used) - at;
		uint64_t	wanted = (uint64_t) out->used + kept + content;

		if (wanted > out->space && !arena_grow_buffer(arena, out, wanted))
			return false;
		memcpy(out->bytes + out->used, in->bytes + at, kept);
		memcpy(out->origins + out->used, in->origins + at, kept * sizeof(*out->origins));
		out->used += kept;
		if (!found)
			break;
		at = stop;
		memcpy(out->bytes + out->used, step->content, content);
		for (uint32_t i = 0; i < content; i++)
			out->origins[out->used + i] = in->origins[at - 1];
		out->used += content;
	}
	rewrite_end(arena, &rewriting);
	return true;
}

/* SentencePiece's rules for machine translation, on controls and white space: 0 removes. */
static uint32_t
nmt_of(uint32_t point)
{
	if ((point >= 0x0001 && point <= 0x0008) || point == 0x000B || (point >= 0x000E && point <= 0x001F) ||
		point == 0x007F || point == 0x008F || point == 0x009F)
		return 0;
	if (point == '\t' || point == '\n' || point == '\f' || point == '\r' || point == 0x1680 ||
		(point >= 0x200B && point <= 0x200F) || point == 0x2028 || point == 0x2029 || point == 0x2581 ||
		point == 0xFEFF || point == 0xFFFD)
		return ' ';
	return point;
}

static bool
step_nmt(struct tokenizer_arena *arena)
{
	struct text_buffer *buffer = &arena->buffer;
	uint32_t	used = 0;

	for (uint32_t at = 0, length; at < buffer->used; at += length)
	{
		uint32_t	point = utf8_decode(buffer->bytes + at, &length), to = nmt_of(point);
		uint32_t	kept = to == point ? length : to == 0 ? 0 : 1;

		if (to == ' ')
			buffer->bytes[used] = ' ';
		else
			memmove(buffer->bytes + used, buffer->bytes + at, kept);
		memmove(buffer->origins + used, buffer->origins + at, kept * sizeof(*buffer->origins));
		used += kept;
	}
	buffer->used = used;
	return true;
}

static bool
run_step(struct tokenizer_arena *arena, const struct normalizer *step)
{
	switch (step->kind)
	{
		case NORMALIZE_BERT:
			return true;
		case NORMALIZE_NFC:
			return normalize_unicode(arena, false, true);
		case NORMALIZE_NFD:
			return normalize_unicode(arena, false, false);
		case NORMALIZE_NFKC:
			return normalize_unicode(arena, true, true);
		case NORMALIZE_NFKD:
			return normalize_unicode(arena, true, false);
		case NORMALIZE_LOWERCASE:
			return step_lowercase(arena);
		case NORMALIZE_STRIP_ACCENTS:
			return step_strip_accents(arena);
		case NORMALIZE_STRIP:
			return step_strip(arena, step);
		case NORMALIZE_PREPEND:
			return step_prepend(arena, step);
		case NORMALIZE_REPLACE:
		case NORMALIZE_REPLACE_CLASS:
			return step_replace(arena, step);
		case NORMALIZE_NMT:
			return step_nmt(arena);
		case NORMALIZE_PRECOMPILED:
			return normalize_precompiled(arena, step);
	}
	return false;
}

/* How long a text, or a part of one, may become. */
static uint32_t
longest(size_t size)
{
	uint64_t	bytes = TEXT_BUFFER_LEAST + (uint64_t) size * TEXT_GROWTH_MAX;

	return bytes < TEXT_BUFFER_MAX - TEXT_BUFFER_SPARE ? (uint32_t) bytes : TEXT_BUFFER_MAX - TEXT_BUFFER_SPARE;
}

/* A step that makes the text longer than that ends where a buffer would grow, or, where it is large from another text, here. */
bool
normalize(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const uint8_t *text, size_t size,
		  uint32_t character)
{
	bool		bert = tokenizer->normalizers_count > 0 && tokenizer->normalizers[0].kind == NORMALIZE_BERT;
	uint32_t	most = longest(size);

	arena->buffer.used = 0;
	arena->buffer_max = most + TEXT_BUFFER_SPARE;
	if (!(bert ? bert_normalize(&tokenizer->bert, arena, text, size, character) :
		  text_copy(arena, text, size, character)))
		return false;
	for (uint32_t i = bert; i < tokenizer->normalizers_count; i++)
		if (!run_step(arena, &tokenizer->normalizers[i]) ||
			(arena->buffer.used > most && !arena_too_long(arena)))
			return false;
	arena->buffer_max = TEXT_BUFFER_MAX;
	return true;
}
