/*
 * text_padding.c
 *	  Texts that have the padding's own token in them.  RoBERTa gives it the padding's place and
 *	  does not count it; numbers of the reference (sentence-transformers 5.7.0).
 */
#include "encoder_fixture.h"

#define TEXT	"The <pad> price <pad><pad> of it"

static const float wanted[] = {
	-0.2005497f, 0.2826971f, -0.0859887f, 0.0736797f, 0.3887593f, 0.3473552f, 0.0554413f, -0.0615844f, -0.0843349f, -0.0670198f,
	-0.1101113f, -0.044912f, 0.1486205f, -0.0127093f, 0.1463793f, 0.0885425f, -0.2724273f, -0.0786507f, 0.0951161f, -0.096915f,
	-0.0770394f, -0.1366041f, 0.0610881f, -0.1571482f, -0.1251346f, -0.2867076f, -0.0890394f, -0.0272247f, 0.485143f, 0.0691827f,
	0.0482577f, -0.1012364f
};

int
main(void)
{
	struct encoder_fixture fixture;
	struct encoder_call_fixture call;
	double		square = 0;

	if (!encoder_open(&fixture, "roberta_mean", "{\"precision\":\"f32\"}"))
	{
		tap_ok(false, "%s", fixture.status.message);
		return tap_done();
	}
	encoder_request(&call, &fixture, 1);
	encoder_text(&call, ENCODER_INPUT_TEXT, 0, TEXT);
	tap_ok(encoder_run(&call) && call.request.row_status[0] == INFER_OK, "a text with padding is embedded");
	for (uint32_t i = 0; i < 32; i++)
		square += pow((double) (encoder_numbers(&call, 0, 0)[i] - wanted[i]), 2);
	tap_ok(sqrt(square) <= 1e-5, "its tokens have the places that the reference gives them (%.1e)", sqrt(square));
	encoder_release(&call);
	encoder_close(&fixture);
	return tap_done();
}
