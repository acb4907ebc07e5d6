/*
 * watch.cu
 *	  Waiting for a GPU without asking it all the time; noticing that it hangs.
 *
 * One thread for each GPU, the watcher, looks after the queues that nobody waits on (who waits looks by itself): it sleeps for
 * the time that the oldest run is predicted to take, then asks in short intervals.  It also captures
 * graphs, so that no call does.  When for a while nothing has been in flight it sleeps until it is woken.
 *
 * Predictions are the estimate's times a moving mean of what runs of this GPU took by their estimates.
 *
 * Locks: the watcher's, then a queue's.  idle is set, then the queues are looked at once more; who enqueues publishes, then
 * reads idle: so one of the two sees the other.
 */
#include "core.h"

#include <signal.h>
#include <stdlib.h>

#define HANG_TIMES		20
#define HANG_NSEC		UINT64_C(5000000000)	/* at least */

#define SPIN_NSEC		100000		/* around the predicted end: a thread that sleeps wakes up later than it wants to */
#define NAP_NSEC_MAX	2000000
#define LOOK_NSEC		5000000		/* of the watcher, where nothing needs it */
#define LOOKS_IDLE		20			/* such looks in vain before it sleeps */

#define SLOWER_PART		0.1f		/* of a measurement in the mean */
#define SLOWER_MIN		0.05f
#define SLOWER_MAX		100.0f

struct cuda_watcher
{
	cuda_gpu   *gpu;
	pthread_t	thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	device_queue *queues;
	bool		stop;
	uint32_t	idle;				/* atomic: it sleeps until it is woken */
};

void
cuda_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void
wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t nsec)
{
	timespec	time;

	time.tv_sec = (time_t) (nsec / 1000000000u);
	time.tv_nsec = (long) (nsec % 1000000000u);
	pthread_cond_timedwait(condition, lock, &time);
}

/* ---- predictions ---- */

static float
slower(const cuda_gpu *gpu)
{
	float		factor;

	__atomic_load(&gpu->slower, &factor, __ATOMIC_RELAXED);
	return factor;
}

/* Two queues may lose a measurement of each other's. */
void
cuda_watch_measured(cuda_gpu *gpu, uint64_t predicted, uint64_t elapsed)
{
	float		factor = slower(gpu);
	float		measured = (float) elapsed / (float) (predicted + 1);

	factor += (measured - factor) * SLOWER_PART;
	factor = factor < SLOWER_MIN ? SLOWER_MIN : factor > SLOWER_MAX ? SLOWER_MAX : factor;
	__atomic_store(&gpu->slower, &factor, __ATOMIC_RELAXED);
}

uint64_t
cuda_watch_nap(const cuda_gpu *gpu, uint64_t watched, uint64_t predicted, uint64_t now)
{
	uint64_t	end = watched + (uint64_t) ((float) predicted * slower(gpu));
	uint64_t	nap;

	if (now + SPIN_NSEC < end)
		nap = end - now - SPIN_NSEC;
	else if (now < end + SPIN_NSEC)
		return 0;
	else
		nap = (now - watched) / 8;
	return nap < NAP_NSEC_MAX ? nap : NAP_NSEC_MAX;
}

bool
cuda_watch_hang(cuda_gpu *gpu, uint64_t watched, uint64_t predicted, uint64_t now)
{
	float		factor = slower(gpu);
	uint64_t	bound = (uint64_t) (HANG_TIMES * (double) predicted * (factor > 1 ? factor : 1));

	bound = bound > HANG_NSEC ? bound : HANG_NSEC;
	if (now < watched + bound)
		return false;
	__atomic_store_n(&gpu->device->hangs, 1, __ATOMIC_RELEASE);
	cuda_lose(gpu->device, "GPU %d hangs: a run that was predicted to take %.1f ms has not ended after %.1f s", gpu->ordinal,
			  (double) predicted / 1e6, (double) (now - watched) / 1e9);
	return true;
}

/* Of an event, or of a stream where there is none. */
static cudaError_t
watch_until(cuda_gpu *gpu, cudaEvent_t event, cudaStream_t stream, uint64_t predicted)
{
	uint64_t	began = cuda_now_nsec();

	for (;;)
	{
		uint64_t	asked = cuda_now_nsec();
		cudaError_t error = event != nullptr ? cudaEventQuery(event) : cudaStreamQuery(stream);
		uint64_t	now = cuda_now_nsec();
		timespec	nap = {0, (long) cuda_watch_nap(gpu, began, predicted, now)};

		if (error != cudaErrorNotReady)
			return error;
		began += now - asked;		/* what the call took is not the GPU's time */
		if (cuda_is_lost(gpu->device) || cuda_watch_hang(gpu, began, predicted, now))
			return cudaErrorUnknown;
		nanosleep(&nap, nullptr);
	}
}

bool
cuda_watch_event(cuda_gpu *gpu, cudaEvent_t event, uint64_t predicted)
{
	cudaError_t error = watch_until(gpu, event, nullptr, predicted);

	if (error == cudaSuccess)
		return true;
	cudaGetLastError();
	cuda_lose(gpu->device, "GPU %d answers errors: %s", gpu->ordinal, cudaGetErrorString(error));
	return false;
}

cudaError_t
cuda_watch_stream(cuda_gpu *gpu, cudaStream_t stream, uint64_t predicted)
{
	return watch_until(gpu, nullptr, stream, predicted);
}

/* ---- the watcher ---- */

/* When to look at a queue again; 0: nothing is in flight. */
static uint64_t
look_at(device_queue *queue)
{
	uint64_t	now = cuda_now_nsec();
	uint64_t	next = 0;

	pthread_mutex_lock(&queue->lock);
	if (queue->waiting == 0)
		cuda_queue_progress(queue);
	if (queue->completed < queue->tickets)
	{
		const cuda_flight *flight = &queue->flights[(queue->completed + 1) % CUDA_FLIGHTS];

		next = now + LOOK_NSEC;
		if (queue->waiting == 0)
		{
			uint64_t	nap = cuda_watch_nap(queue->gpu, flight->watched, flight->predicted, now);

			next = now + (nap > SPIN_NSEC ? nap : SPIN_NSEC);	/* nobody waits: it need not spin */
		}
	}
	pthread_mutex_unlock(&queue->lock);
	return next;
}

/* When to look again; 0: nothing is in flight.  The lock is held. */
static uint64_t
look(cuda_watcher *watcher)
{
	uint64_t	first = 0;

	for (device_queue *queue = watcher->queues; queue != nullptr; queue = queue->next)
	{
		uint64_t	next = look_at(queue);

		if (next != 0 && (first == 0 || next < first))
			first = next;
	}
	return first;
}

static void
watch(cuda_watcher *watcher)
{
	uint32_t	vain = 0;

	pthread_mutex_lock(&watcher->lock);
	while (!watcher->stop)
	{
		uint64_t	next = look(watcher);

		vain = next == 0 ? vain + 1 : 0;
		if (vain < LOOKS_IDLE)
			wait_until(&watcher->wake, &watcher->lock, next == 0 ? cuda_now_nsec() + LOOK_NSEC : next);
		else
		{
			__atomic_store_n(&watcher->idle, 1, __ATOMIC_SEQ_CST);
			if (look(watcher) == 0)
				pthread_cond_wait(&watcher->wake, &watcher->lock);
			__atomic_store_n(&watcher->idle, 0, __ATOMIC_SEQ_CST);
			vain = 0;
		}
		pthread_mutex_unlock(&watcher->lock);
		while (cuda_graphs_capture(watcher->gpu))
			;
		pthread_mutex_lock(&watcher->lock);
	}
	pthread_mutex_unlock(&watcher->lock);
}

static void *
watcher_main(void *argument)
{
	cuda_watcher *watcher = (cuda_watcher *) argument;

	cudaSetDevice(watcher->gpu->ordinal);
	cudaGetLastError();
	watch(watcher);
	return nullptr;
}

/* Signals are for the thread that has asked for them, but for those that an instruction raises. */
static int
start_thread(cuda_watcher *watcher)
{
	sigset_t	all;
	sigset_t	before;
	int			error;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&watcher->thread, nullptr, watcher_main, watcher);
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	return error;
}

bool
cuda_watcher_start(cuda_gpu *gpu, status *status)
{
	cuda_watcher *watcher = (cuda_watcher *) calloc(1, sizeof(*watcher));

	gpu->slower = 1;
	if (watcher != nullptr)
	{
		watcher->gpu = gpu;
		pthread_mutex_init(&watcher->lock, nullptr);
		cuda_condition_init(&watcher->wake);
		if (start_thread(watcher) == 0)
		{
			gpu->watcher = watcher;
			return true;
		}
		pthread_cond_destroy(&watcher->wake);
		pthread_mutex_destroy(&watcher->lock);
		free(watcher);
	}
	return status_set(status, INFER_ERROR_MEMORY, "out of memory: no thread to watch GPU %d", gpu->ordinal);
}

void
cuda_watcher_stop(cuda_gpu *gpu)
{
	cuda_watcher *watcher = gpu->watcher;

	if (watcher == nullptr)
		return;
	pthread_mutex_lock(&watcher->lock);
	watcher->stop = true;
	pthread_cond_signal(&watcher->wake);
	pthread_mutex_unlock(&watcher->lock);
	pthread_join(watcher->thread, nullptr);
	pthread_cond_destroy(&watcher->wake);
	pthread_mutex_destroy(&watcher->lock);
	free(watcher);
	gpu->watcher = nullptr;
}

void
cuda_watcher_add(device_queue *queue)
{
	cuda_watcher *watcher = queue->gpu->watcher;

	pthread_mutex_lock(&watcher->lock);
	queue->next = watcher->queues;
	watcher->queues = queue;
	pthread_mutex_unlock(&watcher->lock);
}

void
cuda_watcher_remove(device_queue *queue)
{
	cuda_watcher *watcher = queue->gpu->watcher;

	pthread_mutex_lock(&watcher->lock);
	for (device_queue **at = &watcher->queues; *at != nullptr; at = &(*at)->next)
		if (*at == queue)
		{
			*at = queue->next;
			break;
		}
	pthread_mutex_unlock(&watcher->lock);
}

void
cuda_watcher_wake(cuda_gpu *gpu)
{
	cuda_watcher *watcher = gpu->watcher;

	if (__atomic_load_n(&watcher->idle, __ATOMIC_SEQ_CST) == 0)
		return;
	pthread_mutex_lock(&watcher->lock);
	pthread_cond_signal(&watcher->wake);
	pthread_mutex_unlock(&watcher->lock);
}
