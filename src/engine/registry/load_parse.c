/*
 * load_parse.c
 *	  A LOAD frame becomes a job of the loader.  Nothing that the frame says is believed before
 *	  it has been looked at.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"

void
load_job_close(struct load_job *job)
{
	for (uint32_t i = 0; i < job->files_count && job->fds != NULL; i++)
	{
		if (job->fds[i] >= 0)
			close(job->fds[i]);
		job->fds[i] = -1;
	}
}

void
load_job_free(struct load_job *job)
{
	load_job_close(job);
	for (uint32_t i = 0; i < job->files_count && job->names != NULL; i++)
		free(job->names[i]);
	free(job->names);
	free(job->sizes);
	free(job->fds);
	free(job->options);
	free(job);
}

/* A C string of its own, or NULL if it has a zero byte (or memory is out). */
static char *
copy_text(const char *text, uint32_t length)
{
	if (text == NULL || memchr(text, 0, length) != NULL)
		return NULL;
	return strndup(text, length);
}

static bool
parse_files(struct infer_reader *r, struct load_job *job)
{
	if (job->files_count == 0)
		return true;
	job->names = calloc(job->files_count, sizeof(*job->names));
	job->sizes = calloc(job->files_count, sizeof(*job->sizes));
	job->fds = malloc(job->files_count * sizeof(*job->fds));
	for (uint32_t i = 0; i < job->files_count && job->fds != NULL; i++)
		job->fds[i] = -1;
	if (job->names == NULL || job->sizes == NULL || job->fds == NULL)
		return false;
	for (uint32_t i = 0; i < job->files_count; i++)
	{
		uint32_t	length;
		const char *name = infer_get_string(r, &length);

		job->names[i] = copy_text(name, length);
		job->sizes[i] = infer_get_u64(r);
		if (job->names[i] == NULL)
			return false;
	}
	return true;
}

struct load_job *
load_parse(const uint8_t *payload, uint32_t length)
{
	struct infer_load load;
	struct infer_reader r = {.data = payload, .size = length};
	const uint8_t *head = infer_get_bytes(&r, sizeof(load));
	struct load_job *job;

	if (head == NULL)
		return NULL;
	memcpy(&load, head, sizeof(load));
	if (load.files_count > INFER_FDS_MAX ||
		(load.flags & ~(INFER_LOAD_RETRY | INFER_LOAD_WROTE | INFER_LOAD_CHECK)) != 0)
		return NULL;
	job = calloc(1, sizeof(*job));
	if (job == NULL)
		return NULL;
	memcpy(job->key, load.key, INFER_KEY_BYTES);
	memcpy(job->digest, load.digest, INFER_KEY_BYTES);
	job->flags = load.flags;
	job->files_count = load.files_count;
	job->options = copy_text((const char *) infer_get_bytes(&r, load.options_length), load.options_length);
	if (job->options == NULL || !parse_files(&r, job) || r.failed || r.used != r.size)
	{
		load_job_free(job);
		return NULL;
	}
	return job;
}
