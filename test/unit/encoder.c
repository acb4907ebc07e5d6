/*
 * encoder.c
 *	  The kind of model that reads text: what a call may ask for, and what fails and how.  What
 *	  the numbers must be is said by test/conformance/encoder.c, how batches run by encoder_run.c.
 */
#include "encoder_fixture.h"
#include "encoder_reference.h"

#define LONG_WORDS	100

static char long_text[LONG_WORDS * 8 + 1];

/* ---- helpers ---- */

/* One row that must fail, with this in its message, and this in its hint. */
static void
test_row_error(struct encoder_call_fixture *c, uint32_t error, const char *message, const char *hint)
{
	bool		ran = encoder_run(c);
	const struct infer_error_text *text = ran ? encoder_error(c, 0) : NULL;

	tap_ok(ran && c->request.row_status[0] == error && c->request.units[0] == 0 && strstr(text->message, message) != NULL &&
		   strstr(text->hint, hint) != NULL, "\"%s\" is that row's error: %s", message, ran ? text->message : c->model->status.message);
	encoder_release(c);
}

static double
length_of(const float *numbers, uint32_t count)
{
	double		squares = 0;

	for (uint32_t i = 0; i < count; i++)
		squares += (double) numbers[i] * numbers[i];
	return sqrt(squares);
}

static bool
close_to(const float *a, const float *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (fabsf(a[i] - b[i]) > 1e-6f)
			return false;
	return true;
}

/* ---- signatures ---- */

static void
test_signature(void)
{
	struct encoder_fixture f;
	const struct infer_signature *s;
	uint32_t	width;

	encoder_open(&f, "bert_mean", NULL);
	s = &f.model->signature;
	width = (uint32_t) s->outputs[0].dims[0];
	tap_ok(s->task == INFER_TASK_EMBEDDING && s->inputs_count == 4 && s->inputs[0].role == INFER_ROLE_TEXT && s->inputs[0].flags == 0 &&
		   (s->inputs[1].flags & s->inputs[2].flags & s->inputs[3].flags & INFER_TENSOR_HIDDEN) != 0 &&
		   s->inputs[3].dims[0] == INFER_TEXT_OPTIONS, "an embedding takes a text; pair, prompt and options are hidden");
	tap_ok(s->outputs_count == 4 && s->outputs[0].role == INFER_ROLE_EMBEDDING && width == 48 && s->outputs[0].flags == 0 &&
		   (s->outputs[1].flags & s->outputs[2].flags & s->outputs[3].flags & INFER_TENSOR_HIDDEN) != 0,
		   "it gives a vector; tokens, their count and chunks are hidden");
	tap_ok(strstr(s->facts, "\"tokens_max\":40") != NULL && strstr(s->facts, "\"tokens_max_from\":\"") != NULL &&
		   strstr(s->facts, "\"pooling\":\"mean\"") != NULL && strstr(s->facts, "\"dimensions\":48") != NULL,
		   "what is known of it is said: %s", s->facts);
	tap_ok(s->alone_nsec > 0 && s->row_nsec > 0 && s->row_nsec <= s->alone_nsec && s->bytes > 0 && f.model->bytes > s->bytes,
		   "its time and memory are predicted");
	encoder_close(&f);
	encoder_open(&f, "bert_cross", NULL);
	s = &f.model->signature;
	tap_ok(s->task == INFER_TASK_RERANKER && s->inputs[1].role == INFER_ROLE_PAIR && s->inputs[1].flags == 0 &&
		   s->outputs[0].role == INFER_ROLE_SCORE, "a reranker takes a pair and gives a score");
	encoder_close(&f);
	encoder_open(&f, "bert_classify", NULL);
	s = &f.model->signature;
	tap_ok(s->task == INFER_TASK_CLASSIFIER && s->outputs[0].role == INFER_ROLE_LABEL && s->outputs[1].role == INFER_ROLE_SCORES &&
		   s->classes_count == 5 && strcmp(s->classes[4], "other \"kind\"") == 0 && s->outputs[1].dims[0] == 5,
		   "a classifier gives a label and a score for each class");
	encoder_close(&f);
	encoder_open(&f, "bert_regression", NULL);
	tap_ok(f.model->signature.task == INFER_TASK_REGRESSION && f.model->signature.outputs[0].rank == 0, "a regression gives a number");
	encoder_close(&f);
	encoder_open(&f, "bert_entities", NULL);
	s = &f.model->signature;
	tap_ok(s->task == INFER_TASK_ENTITIES && s->outputs[0].role == INFER_ROLE_ENTITY_TYPES && s->outputs[1].role == INFER_ROLE_ENTITY_PLACES &&
		   s->outputs[2].role == INFER_ROLE_ENTITY_SCORES && s->classes_count == 4 && strcmp(s->classes[1], "PER") == 0,
		   "entities have types, each once, places and scores");
	encoder_close(&f);
}

/* ---- what a call may ask for ---- */

static void
test_options(struct encoder_fixture *f)
{
	float		all[48], raw[48], some[48], expected[48];
	double		length;

	encoder_embed(f, "the query planner", 0, 0, "", all);
	encoder_embed(f, "the query planner", INFER_TEXT_RAW, 0, "", raw);
	encoder_embed(f, "the query planner", INFER_TEXT_NORMALIZE, 16, "", some);
	length = length_of(raw, 48);
	for (int i = 0; i < 48; i++)
		expected[i] = (float) (raw[i] / length);
	tap_ok(fabs(length_of(all, 48) - 1) < 1e-6 && length > 1.01 && memcmp(all, expected, sizeof(all)) == 0,
		   "an embedding has length 1, unless it is asked for raw (length %.3f)", length);
	length = length_of(raw, 16);
	for (int i = 0; i < 48; i++)
		expected[i] = i < 16 ? (float) (raw[i] / length) : 0;
	tap_ok(memcmp(some, expected, sizeof(some)) == 0, "fewer dimensions are the first ones, made as long as 1, and zeros");
	encoder_embed(f, "the query planner", INFER_TEXT_RAW, 48, "", some);
	tap_ok(memcmp(some, raw, sizeof(raw)) == 0, "all dimensions may be asked for");
}

static void
test_options_refused(struct encoder_fixture *f, struct encoder_fixture *classifier)
{
	struct encoder_call_fixture c;

	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_DIMENSIONS, 49);
	test_row_error(&c, INFER_ERROR_INPUT, "49 dimensions are asked for, and the model's embedding has 48", "1 to 48");
	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_DIMENSIONS, -1);
	test_row_error(&c, INFER_ERROR_INPUT, "-1 dimensions", "1 to 48");
	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_FLAGS, 64);
	test_row_error(&c, INFER_ERROR_INPUT, "flags 0x40", "");
	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE | INFER_TEXT_REFUSE);
	test_row_error(&c, INFER_ERROR_INPUT, "its opposite", "");
	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_CHUNK_BORDER, 3);
	test_row_error(&c, INFER_ERROR_INPUT, "chunks are out of range", "");
	encoder_one(&c, f, "a");
	encoder_option(&c, 0, 7, 1);
	test_row_error(&c, INFER_ERROR_INPUT, "option 7 of the call is 1", "");
	encoder_one(&c, classifier, "a");
	encoder_option(&c, 0, INFER_TEXT_DIMENSIONS, 2);
	test_row_error(&c, INFER_ERROR_INPUT, "no embedding that could have 2 dimensions", "");
	encoder_one(&c, classifier, "a");
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_NORMALIZE);
	test_row_error(&c, INFER_ERROR_INPUT, "no embedding that could have length 1", "");
}

static void
test_prompts(void)
{
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	float		plain[16], query[16], spelled[16];

	encoder_open(&f, "bert_e5", NULL);
	encoder_embed(&f, "who owns the processor", 0, 0, "", plain);
	encoder_embed(&f, "who owns the processor", 0, 0, "query", query);
	encoder_embed(&f, "query: who owns the processor", 0, 0, "", spelled);
	tap_ok(memcmp(query, spelled, sizeof(query)) == 0 && !close_to(query, plain, 16), "a prompt is put before the text by its name");
	encoder_one(&c, &f, "a");
	encoder_text(&c, ENCODER_INPUT_PROMPT, 0, "querry");
	test_row_error(&c, INFER_ERROR_INPUT, "no prompt \"querry\"", "\"query\"");
	encoder_one(&c, &f, "a");
	encoder_text(&c, ENCODER_INPUT_PROMPT, 0, "query");
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_NO_PROMPT);
	test_row_error(&c, INFER_ERROR_INPUT, "none is asked for", "");
	encoder_close(&f);
	encoder_open(&f, "bert_default_prompt", NULL);
	encoder_embed(&f, "create a user", 0, 0, "", plain);
	encoder_embed(&f, "create a user", INFER_TEXT_NO_PROMPT, 0, "", query);
	encoder_embed(&f, "How do I create a user", INFER_TEXT_NO_PROMPT, 0, "", spelled);
	tap_ok(memcmp(plain, spelled, sizeof(plain)) == 0 && !close_to(query, plain, 16), "a default prompt is used, unless none is asked for");
	encoder_close(&f);
}

/* Where pooling passes over a prompt, its tokens are seen by the others, and are not in the mean. */
static void
test_prompts_excluded(void)
{
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	float		plain[16], query[16], spelled[16];

	encoder_open(&f, "bert_prompt_excluded", NULL);
	tap_ok(strstr(f.model->signature.facts, "\"include_prompt\":false") != NULL, "that pooling passes over prompts is known");
	encoder_embed(&f, "a user", 0, 0, "", plain);
	encoder_embed(&f, "a user", 0, 0, "query", query);
	encoder_embed(&f, "The meaning of this message: a user", 0, 0, "", spelled);
	tap_ok(!close_to(query, plain, 16) && !close_to(query, spelled, 16), "a prompt that is passed over is neither absent nor pooled");
	encoder_close(&f);
	encoder_open(&f, "bert_prompt_excluded", "{\"max_tokens\":8}");
	encoder_one(&c, &f, "a user");
	encoder_text(&c, ENCODER_INPUT_PROMPT, 0, "query");
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	c.request.outputs_wanted = 1;
	tap_ok(encoder_run(&c) && c.request.row_status[0] == INFER_OK && encoder_prepared(&c.request)->rows[0].passed_over == 7 &&
		   encoder_prepared(&c.request)->rows[0].tokens == 8, "a prompt that is cut leaves the token that ends the text");
	encoder_release(&c);
	encoder_close(&f);
}

static void
test_length(struct encoder_fixture *f)
{
	struct encoder_fixture cutting;
	struct encoder_call_fixture c;
	float		cut[48], cut_too[48];

	encoder_one(&c, f, long_text);
	test_row_error(&c, INFER_ERROR_INPUT, "tokens, and the model takes at most 40", "{\"truncate\": true}");
	encoder_embed(f, long_text, INFER_TEXT_TRUNCATE, 0, "", cut);
	tap_ok(fabs(length_of(cut, 48) - 1) < 1e-6, "a text that is too long is cut if the call says so");
	encoder_open(&cutting, "bert_mean", "{\"truncate\":true}");
	encoder_embed(&cutting, long_text, 0, 0, "", cut_too);
	tap_ok(memcmp(cut, cut_too, sizeof(cut)) == 0, "or the model");
	encoder_one(&c, &cutting, long_text);
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_REFUSE);
	test_row_error(&c, INFER_ERROR_INPUT, "at most 40", "infer.chunk()");
	encoder_close(&cutting);
}

/* Of what the model is made of, evaluated plainly; the row's tokens as they were prepared. */
static double
away_from_plain(const struct encoder_call_fixture *c, uint32_t row)
{
	const struct encoder *e = ((const struct encoder_model *) c->model->model)->encoder;
	const struct encoder_request *prepared = encoder_prepared(&c->request);
	const struct encoder_row *r = &prepared->rows[row];
	double	   *hidden = reference_hidden(e, prepared->ids + r->first, prepared->types == NULL ? NULL : prepared->types + r->first, r->tokens);
	double	   *pooled = calloc((size_t) e->hidden * ENCODER_POOLINGS_MAX, sizeof(double)), out[256];
	double		squares = 0;
	int64_t		count;

	count = reference_pool(e, hidden, r->passed_over, r->tokens, pooled);
	count = reference_head_on(e, pooled, count, out);
	for (int64_t i = 0; i < count; i++)
		squares += pow(out[i] - (double) encoder_numbers(c, 0, row)[i], 2);
	free(hidden);
	free(pooled);
	return sqrt(squares);
}

/* The token that RoBERTa pads with has no place of its own where a text has it. */
static void
test_padding(void)
{
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	double		away[2];
	bool		fine;

	encoder_open(&f, "roberta_mean", "{\"precision\":\"f32\"}");
	encoder_request(&c, &f, 2);
	encoder_text(&c, ENCODER_INPUT_TEXT, 0, "the query <pad><pad> planner");
	encoder_text(&c, ENCODER_INPUT_TEXT, 1, "the query planner");
	fine = encoder_run(&c) && c.request.row_status[0] == INFER_OK && c.request.units[0] > c.request.units[1];
	away[0] = away_from_plain(&c, 0);
	away[1] = away_from_plain(&c, 1);
	tap_ok(fine && away[0] < 1e-5 && away[1] < 1e-5, "a text with the tokens that a model pads with is as the model says (%.1g, %.1g)", away[0], away[1]);
	encoder_release(&c);
	encoder_close(&f);
}

static void
test_texts_refused(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;
	struct infer_span *spans;

	encoder_request(&c, f, 1);
	encoder_bytes(&c, ENCODER_INPUT_TEXT, 0, "a\xff", 2);
	test_row_error(&c, INFER_ERROR_INPUT, "UTF-8", "");
	encoder_one(&c, f, "a");
	spans = (struct infer_span *) (c.region + c.columns[ENCODER_INPUT_TEXT].spans_offset);
	spans[0] = (struct infer_span) {UINT32_MAX, UINT32_MAX};
	test_row_error(&c, INFER_ERROR_PROTOCOL, "outside its column", "");
	encoder_one(&c, f, "a");
	spans = (struct infer_span *) (c.region + c.columns[ENCODER_INPUT_PROMPT].spans_offset);
	spans[0] = (struct infer_span) {ENCODER_TEXTS - 1, 2};
	test_row_error(&c, INFER_ERROR_PROTOCOL, "outside its column", "");
}

/* Rows around one that fails are as they are without it. */
static void
test_neighbours(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;
	float		alone[48];
	bool		fine = true;

	encoder_request(&c, f, 3);
	encoder_text(&c, ENCODER_INPUT_TEXT, 0, "the query planner");
	encoder_text(&c, ENCODER_INPUT_TEXT, 1, long_text);
	encoder_text(&c, ENCODER_INPUT_TEXT, 2, "");
	fine = encoder_run(&c) && c.request.row_status[0] == INFER_OK && c.request.row_status[1] == INFER_ERROR_INPUT &&
		c.request.row_status[2] == INFER_OK && c.request.units[0] > 2 && c.request.units[1] == 0 && c.request.units[2] == 2;
	encoder_embed(f, "the query planner", 0, 0, "", alone);
	tap_ok(fine && memcmp(alone, encoder_numbers(&c, 0, 0), sizeof(alone)) == 0 && fabs(length_of(encoder_numbers(&c, 0, 2), 48) - 1) < 1e-6,
		   "a row that fails fails alone, and an empty text is its special tokens");
	tap_ok(c.request.costs[0] > 0 && c.request.costs[0] > c.request.costs[2] && c.request.costs[1] == 0 && c.request.prepared_bytes > 0,
		   "rows have units and costs, and their memory is counted");
	encoder_release(&c);
}

/* ---- what needs no device ---- */

static void
test_hidden(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;
	uint32_t	tokens = encoder_output(f, INFER_ROLE_TOKENS);
	uint32_t	counts = encoder_output(f, INFER_ROLE_TOKEN_COUNT);
	uint32_t	chunks = encoder_output(f, INFER_ROLE_CHUNKS);
	uint32_t	count, whole, chunks_count;
	const int32_t *ids;
	const int32_t *triples;
	bool		fine;

	encoder_request(&c, f, 2);
	encoder_text(&c, ENCODER_INPUT_TEXT, 0, long_text);
	encoder_text(&c, ENCODER_INPUT_TEXT, 1, "the query planner");
	encoder_option(&c, 0, INFER_TEXT_CHUNK_TOKENS, 20);
	encoder_option(&c, 1, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	c.request.outputs_wanted = 1u << tokens | 1u << counts | 1u << chunks;
	fine = encoder_prepare(&c) && c.request.row_status[0] == INFER_OK && c.request.row_status[1] == INFER_OK;
	ids = encoder_varying(&c, tokens, 0, &count);
	whole = (uint32_t) ((const int32_t *) encoder_numbers(&c, counts, 0))[0];
	tap_ok(fine && count == whole && count > 40 && ids[0] != ids[count - 1] && c.request.units[0] == 0 && c.request.units[1] == 0,
		   "ids and their number are answered without the device, of the whole text (%u)", count);
	triples = encoder_varying(&c, chunks, 0, &chunks_count);
	fine = chunks_count % 3 == 0 && chunks_count >= 9;
	for (uint32_t i = 0; i < chunks_count; i += 3)
		fine = fine && triples[i] < triples[i + 1] && triples[i + 2] > 2 && triples[i + 2] <= 20 &&
			(i == 0 || triples[i] >= triples[i - 2]);
	tap_ok(fine && triples[0] == 0, "and chunks of at most so many tokens (%u of them)", chunks_count / 3);
	encoder_release(&c);

	encoder_one(&c, f, "a");
	encoder_option(&c, 0, INFER_TEXT_CHUNK_TOKENS, 2);
	c.request.outputs_wanted = 1u << chunks;
	test_row_error(&c, INFER_ERROR_INPUT, "", "");

	encoder_one(&c, f, long_text);
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	c.request.outputs_wanted = 1u << tokens | 1;
	fine = encoder_run(&c) && c.request.row_status[0] == INFER_OK;
	encoder_varying(&c, tokens, 0, &count);
	tap_ok(fine && count == 40 && fabs(length_of(encoder_numbers(&c, 0, 0), 48) - 1) < 1e-6,
		   "a call that cuts gets the ids that are left, and the embedding of the same request");
	encoder_release(&c);

	encoder_one(&c, f, long_text);
	encoder_option(&c, 0, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	c.request.outputs_wanted = 1u << counts | 1;
	fine = encoder_run(&c) && c.request.row_status[0] == INFER_OK;
	tap_ok(fine && ((const int32_t *) encoder_numbers(&c, counts, 0))[0] == 40 && c.request.units[0] == 40,
		   "beside an embedding, the number of tokens is that of those that were computed");
	encoder_release(&c);

	encoder_one(&c, f, long_text);
	c.request.outputs_wanted = 1u << tokens;
	c.request.reply_bytes = 1024;
	tap_ok(encoder_prepare(&c) && c.request.overflow && c.request.overflow_bytes >= whole * 4, "a reply without room for ids says how much it lacks");
	encoder_release(&c);
}

static bool
watch_stop(struct model_watch *watch, uint32_t row)
{
	return row < 2;
}

static void
test_watch(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;
	struct model_watch watch = {.row = watch_stop};

	encoder_request(&c, f, 4);
	c.request.watch = &watch;
	tap_ok(!encoder_prepare(&c) && f->status.error == INFER_ERROR_CANCELLED, "preparing stops when nobody wants the rows any more");
	encoder_release(&c);
	tap_ok(c.request.prepared == NULL && c.request.units == NULL && c.request.costs == NULL, "and leaves nothing behind");
}

int
main(void)
{
	struct encoder_fixture embedding, classifier;

	for (int i = 0; i < LONG_WORDS; i++)
		strcat(long_text, "planner ");
	test_signature();
	if (!encoder_open(&embedding, "bert_mean", NULL) || !encoder_open(&classifier, "bert_classify", NULL))
		return 1;
	test_options(&embedding);
	test_options_refused(&embedding, &classifier);
	test_prompts();
	test_prompts_excluded();
	test_length(&embedding);
	test_texts_refused(&embedding);
	test_neighbours(&embedding);
	test_padding();
	test_hidden(&embedding);
	test_watch(&embedding);
	encoder_close(&embedding);
	encoder_close(&classifier);
	return tap_done();
}
