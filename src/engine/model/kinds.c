/*
 * kinds.c
 *	  Every kind of model, in the order in which they are asked whether they recognise the
 *	  files.  A file of its own so that tests can link another list.
 */
#include "model.h"

const struct model_ops *const model_kinds[] = {
	&encoder_model_ops,
	&graph_model_ops,
	NULL
};
