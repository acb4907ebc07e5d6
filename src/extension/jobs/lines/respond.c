/*
 * respond.c
 *	  A line's answers as the body of its response.
 *
 *	/v1/embeddings	{"object":"list","data":[{"object":"embedding","index":0,"embedding":[...]}, ...],"model":"...",
 *					"usage":{"prompt_tokens":8,"total_tokens":8}}
 *	/v1/rerank		{"object":"list","results":[{"index":3,"relevance_score":0.9}, ...],"model":"...","usage":{...}}, best first
 *	/v1/infer		what infer() returns
 *
 * Written as text, not as jsonb: keys stay in this order, and numbers have the digits that give the same number
 * back, no more.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/base64.h"
#include "common/shortest_dec.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "lines.h"

typedef struct Ranked
{
	int			index;
	double		score;
} Ranked;

struct LineAnswers
{
	const char *model;
	const LineAsk *ask;
	int			count;				/* answers so far */
	int64		tokens;				/* of them */
	bool		tokens_known;
	StringInfoData data;			/* as JSON */
	Ranked	   *ranked;				/* rerank */
};

LineAnswers *
line_answers_make(const char *model, const LineAsk *ask)
{
	LineAnswers *answers = palloc0(sizeof(LineAnswers));

	answers->model = model;
	answers->ask = ask;
	answers->tokens_known = true;
	initStringInfo(&answers->data);
	if (ask->url == LINE_RERANK)
		answers->ranked = palloc(sizeof(Ranked) * ask->count);
	return answers;
}

/* ---- embeddings ---- */

static void
append_float(StringInfo to, float number)
{
	char		digits[FLOAT_SHORTEST_DECIMAL_LEN];

	appendBinaryStringInfo(to, digits, float_to_shortest_decimal_bufn(number, digits));
}

static void
append_numbers(StringInfo to, const float *numbers, int count)
{
	appendStringInfoChar(to, '[');
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			appendStringInfoChar(to, ',');
		append_float(to, numbers[i]);
	}
	appendStringInfoChar(to, ']');
}

/* Four bytes for each, the least significant first. */
static void
append_base64(StringInfo to, const float *numbers, int count)
{
	int			bytes = count * sizeof(float);
	int			space = pg_b64_enc_len(bytes) + 1;
	uint32	   *words = palloc(Max(bytes, 1));
	int			length;

	for (int i = 0; i < count; i++)
	{
		uint32		word;

		memcpy(&word, &numbers[i], sizeof(word));
#ifdef WORDS_BIGENDIAN
		word = pg_bswap32(word);
#endif
		words[i] = word;
	}
	appendStringInfoChar(to, '"');
	enlargeStringInfo(to, space);
	length = pg_b64_encode((void *) words, bytes, to->data + to->len, space);
	if (length < 0)
		elog(ERROR, "could not encode an embedding");
	to->len += length;
	to->data[to->len] = '\0';
	appendStringInfoChar(to, '"');
	pfree(words);
}

static void
answer_embedding(LineAnswers *answers, ArrayType *array)
{
	StringInfo	data = &answers->data;
	const float *numbers = (const float *) ARR_DATA_PTR(array);
	int			count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	if (answers->count > 0)
		appendStringInfoChar(data, ',');
	appendStringInfo(data, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":", answers->count);
	if (answers->ask->base64)
		append_base64(data, numbers, count);
	else
		append_numbers(data, numbers, count);
	appendStringInfoChar(data, '}');
}

/* ---- all ---- */

void
line_answer(LineAnswers *answers, Datum result, int tokens)
{
	Assert(answers->count < answers->ask->count);
	switch (answers->ask->url)
	{
		case LINE_EMBEDDINGS:
			answer_embedding(answers, DatumGetArrayTypeP(result));
			break;
		case LINE_RERANK:
			answers->ranked[answers->count] = (Ranked) {.index = answers->count, .score = DatumGetFloat8(result)};
			break;
		case LINE_INFER:
			{
				Jsonb	   *jsonb = DatumGetJsonbP(result);

				(void) JsonbToCString(&answers->data, &jsonb->root, VARSIZE(jsonb));
				break;
			}
		case LINE_URLS:
			break;
	}
	answers->count++;
	answers->tokens += tokens;
	answers->tokens_known = answers->tokens_known && tokens >= 0;
}

/* Best first; of equals the first. */
static int
compare_ranked(const void *a, const void *b)
{
	const Ranked *first = a;
	const Ranked *second = b;

	if (first->score != second->score)
		return first->score > second->score ? -1 : 1;
	return first->index < second->index ? -1 : 1;
}

/* A score is a double that SQL made of the model's float: that one's digits. */
static void
append_score(StringInfo to, double score)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN];

	if ((double) (float) score == score)
		append_float(to, score);
	else
		appendBinaryStringInfo(to, digits, double_to_shortest_decimal_bufn(score, digits));
}

static void
write_ranked(LineAnswers *answers)
{
	const LineAsk *ask = answers->ask;
	StringInfo	data = &answers->data;

	qsort(answers->ranked, answers->count, sizeof(Ranked), compare_ranked);
	for (int i = 0; i < ask->top; i++)
	{
		const Ranked *ranked = &answers->ranked[i];

		if (i > 0)
			appendStringInfoChar(data, ',');
		appendStringInfo(data, "{\"index\":%d,\"relevance_score\":", ranked->index);
		append_score(data, ranked->score);
		if (ask->with_documents)
		{
			appendStringInfoString(data, ",\"document\":{\"text\":");
			escape_json(data, TextDatumGetCString(ask->texts[ranked->index]));
			appendStringInfoChar(data, '}');
		}
		appendStringInfoChar(data, '}');
	}
}

static void
append_tail(const LineAnswers *answers, StringInfo to)
{
	appendStringInfoString(to, ",\"model\":");
	escape_json(to, answers->model);
	if (answers->tokens_known)
		appendStringInfo(to, ",\"usage\":{\"prompt_tokens\":" INT64_FORMAT ",\"total_tokens\":" INT64_FORMAT "}",
						 answers->tokens, answers->tokens);
	appendStringInfoChar(to, '}');
}

text *
line_answers_response(LineAnswers *answers)
{
	StringInfoData body;
	text	   *response;

	Assert(answers->count == answers->ask->count);
	if (answers->ask->url == LINE_INFER)
		return cstring_to_text_with_len(answers->data.data, answers->data.len);
	if (answers->ask->url == LINE_RERANK)
		write_ranked(answers);
	initStringInfo(&body);
	appendStringInfo(&body, "{\"object\":\"list\",\"%s\":[", answers->ask->url == LINE_RERANK ? "results" : "data");
	appendBinaryStringInfo(&body, answers->data.data, answers->data.len);
	appendStringInfoChar(&body, ']');
	append_tail(answers, &body);
	response = cstring_to_text_with_len(body.data, body.len);
	pfree(body.data);
	return response;
}
