/*
 * errors.h
 *	  What can go wrong, as classes: data that the extension turns into SQLSTATEs.
 *
 * A header of its own, since a device in a library, which knows nothing else of the protocol, says it too.
 */
#ifndef INFER_ERRORS_H
#define INFER_ERRORS_H

enum infer_error
{
	INFER_OK = 0,
	INFER_ERROR_INPUT,				/* this row's input is not acceptable to the model */
	INFER_ERROR_NOT_FINITE,			/* this row's output is NaN or infinite */
	INFER_ERROR_UNSUPPORTED,		/* the model asks for something that is not implemented */
	INFER_ERROR_MODEL,				/* the model's file is malformed */
	INFER_ERROR_NEED_LOAD,			/* the key is unknown: send LOAD, then submit again */
	INFER_ERROR_NEED_FILES,			/* answer to LOAD: files missing or damaged, and the asker
									 * is now the one writer */
	INFER_ERROR_NEED_SPACE,			/* the reply does not fit; reply.bytes_wanted says how much */
	INFER_ERROR_BUSY,				/* admission refused; the message says which bound */
	INFER_ERROR_DEADLINE,			/* the deadline passed before the row was computed */
	INFER_ERROR_CANCELLED,
	INFER_ERROR_MEMORY,				/* out of memory or over a memory setting */
	INFER_ERROR_DEVICE,				/* the device failed this batch */
	INFER_ERROR_DEVICE_LOST,		/* the device answers nothing but errors: process is replaced */
	INFER_ERROR_PROTOCOL,			/* a frame or request is malformed */
	INFER_ERROR_VERSION,			/* the two halves are of different versions */
	INFER_ERROR_INTERNAL,
	INFER_ERROR_LAST = INFER_ERROR_INTERNAL
};

#endif							/* INFER_ERRORS_H */
