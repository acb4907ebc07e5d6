/*
 * sandbox.c
 *	  See sandbox.h.  Landlock for files and TCP (linux/landlock.h; the constants of later
 *	  versions are written out, older headers lack them), a seccomp filter for sockets and
 *	  programs.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

/* ---- Landlock ---- */

#define FS_REFER		(1ull << 13)	/* version 2 */
#define FS_TRUNCATE		(1ull << 14)	/* version 3 */
#define FS_IOCTL_DEV	(1ull << 15)	/* version 5 */
#define NET_BIND_TCP	(1ull << 0)		/* version 4 */
#define NET_CONNECT_TCP	(1ull << 1)
#define SCOPE_ABSTRACT	(1ull << 0)		/* version 6 */
#define SCOPE_SIGNAL	(1ull << 1)

#define FS_READ			(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE		(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
						 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK)
#define FS_OF_A_FILE	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attr					/* struct landlock_ruleset_attr of version 6 */
{
	uint64_t	handled_access_fs;
	uint64_t	handled_access_net;
	uint64_t	scoped;
};

static uint64_t
fs_handled(int version)
{
	uint64_t	access = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;	/* all of version 1 */

	if (version >= 2)
		access |= FS_REFER;
	if (version >= 3)
		access |= FS_TRUNCATE;
	if (version >= 5)
		access |= FS_IOCTL_DEV;
	return access;
}

static uint64_t
fs_right(enum sandbox_right right)
{
	switch (right)
	{
		case SANDBOX_WRITE:
			return FS_READ | FS_WRITE;
		case SANDBOX_CHANGE:
			return FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE;
		case SANDBOX_READ:
			break;
	}
	return FS_READ;
}

static void
allow(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = access};
	struct stat st;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return;					/* what is not there need not be allowed */
	if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_OF_A_FILE;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		log_write(LOG_DEBUG, "Landlock does not take a rule for \"%s\": %s", path, strerror(errno));
	close(rule.parent_fd);
}

/* Where the engine itself was installed: its bin, and the lib beside it. */
static void
allow_own_installation(int ruleset, uint64_t access)
{
	char		path[PATH_MAX];
	ssize_t		length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	for (int level = 0; level < 2 && length > 0; level++)
	{
		path[length] = '\0';
		while (length > 0 && path[length - 1] != '/')
			length--;
		if (length > 1)
			length--;
	}
	if (length <= 1)
		return;
	path[length] = '\0';
	allow(ruleset, path, access);
}

/*
 * Of /proc the kernel forgets what nobody has open, and what it looks up again is another file to Landlock: the
 * descriptor stays.
 */
static void
allow_folder(int ruleset, const struct sandbox_folder *folder, uint64_t all)
{
	allow(ruleset, folder->path, fs_right(folder->right) & all);
	if (folder->right == SANDBOX_CHANGE && open(folder->path, O_PATH | O_CLOEXEC) < 0)
		log_write(LOG_DEBUG, "\"%s\" cannot be opened: %s", folder->path, strerror(errno));
}

static void
landlock_enter(const struct sandbox_folder *folders)
{
	static const char *const read_only[] = {"/usr", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys", NULL};
	long		version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {0};
	size_t		size = sizeof(attr.handled_access_fs);
	uint64_t	all;
	int			ruleset;

	if (version < 1)
	{
		log_write(LOG_DEBUG, "Landlock is not available: files are not restricted");
		return;
	}
	all = attr.handled_access_fs = fs_handled((int) version);
	if (version >= 4)
	{
		attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
		size = offsetof(struct ruleset_attr, scoped);
	}
	if (version >= 6)
	{
		attr.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
		size = sizeof(attr);
	}
	ruleset = (int) syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
	{
		log_write(LOG_WARNING, "Landlock does not take the ruleset: %s", strerror(errno));
		return;
	}
	for (int i = 0; read_only[i] != NULL; i++)
		allow(ruleset, read_only[i], FS_READ);
	allow_own_installation(ruleset, FS_READ);
	allow(ruleset, "/dev", (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV) & all);
	for (int i = 0; folders[i].path != NULL; i++)
		allow_folder(ruleset, &folders[i], all);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		log_write(LOG_WARNING, "Landlock could not be entered: %s", strerror(errno));
	close(ruleset);
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_NUMBERS 0x40000000u		/* x32's */
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define FOREIGN_NUMBERS 0xFFFFFFFFu
#endif

#ifdef NATIVE_ARCH
#define LOAD(field)		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ACCEPT			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE_CALL(nr)	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), REFUSE

static void
seccomp_enter(void)
{
	static struct sock_filter code[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
		REFUSE,
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_NUMBERS, 0, 1),
		REFUSE,
		REFUSE_CALL(SYS_execve),
		REFUSE_CALL(SYS_execveat),
		REFUSE_CALL(SYS_ptrace),
		REFUSE_CALL(SYS_io_uring_setup),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
		REFUSE,
		ACCEPT,
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		log_write(LOG_DEBUG, "seccomp is not available: system calls are not restricted");
}
#else
static void
seccomp_enter(void)
{
	log_write(LOG_DEBUG, "no system call filter for this architecture");
}
#endif

void
sandbox_enter(const struct sandbox_folder *folders)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
	{
		log_write(LOG_WARNING, "the sandbox could not be entered: %s", strerror(errno));
		return;
	}
	landlock_enter(folders);
	seccomp_enter();
}
