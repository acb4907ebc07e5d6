/*
 * stubs.c
 *	  Stands in for what is not there yet.
 */
#include "../model/model.h"

static bool
recognises_nothing(const struct model_files *files)
{
	return false;
}

__attribute__((weak)) const struct model_ops graph_model_ops = {
	.kind = "graph",
	.recognises = recognises_nothing
};
