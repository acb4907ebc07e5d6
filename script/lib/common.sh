# common.sh
#	  What every script here shares: where things are, how to speak, who runs the servers.
#
# Sourced, never run.  Standard output belongs to the script's own result; everything said to
# a person goes to standard error.
#
#	INFER_BUILD		objects and private servers (default: build/ in the checkout)
#	INFER_SERVERS	the private servers alone, where they must lie elsewhere
#	INFER_PARTS		downloaded parts (default: .parts/)
#	INFER_VENV		Python environment of tests and examples (default: .venv/)
#	INFER_USER		who runs the servers when root calls (default: postgres)

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=${INFER_BUILD:-$top/build}
parts=${INFER_PARTS:-$top/.parts}
venv=${INFER_VENV:-$top/.venv}

say()
{
	printf '%s\n' "$*" >&2
}

die()
{
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

# What the script's head says, for --help: its comment up to the first line of code.
print_help()
{
	awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0" | expand -t 4
}

# usage LINE: what was typed is no use of this script.
usage_error()
{
	printf 'usage: %s\nTry "script/%s --help" for more.\n' "$1" "$(basename "$0")" >&2
	exit 2
}

# The release's own server is the newest one that can build extensions.
default_major()
{
	local dir

	for dir in $(ls -d /usr/lib/postgresql/*/ 2>/dev/null | sort -t/ -k5 -rV); do
		if [ -f "$dir/lib/pgxs/src/makefiles/pgxs.mk" ] && [ -x "$dir/bin/postgres" ]; then
			basename "$dir"
			return
		fi
	done
	return 1
}

# PostgreSQL refuses to run as root, so root lends its servers to an ordinary user.
server_user()
{
	local user

	if [ "$(id -u)" != 0 ]; then
		id -un
		return
	fi
	user=${INFER_USER:-postgres}
	id -u "$user" >/dev/null 2>&1 || die "user \"$user\" does not exist: run script/setup, or set INFER_USER"
	printf '%s\n' "$user"
}

# as_server_user COMMAND ...: run as the user of the servers, with nothing of our PG* settings.
as_server_user()
{
	local user home

	if [ "$(id -u)" != 0 ]; then
		"$@"
		return
	fi
	user=$(server_user)
	home=$(getent passwd "$user" | cut -d: -f6)
	setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups \
		env HOME="$home" USER="$user" LOGNAME="$user" "$@"
}

# Root, or what makes us root.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		die "this needs root: install sudo, or run as root: $*"
	fi
}

# The private servers lie in the build folder, or, where the user of the servers cannot read
# that, in a folder of this checkout's own under /var/tmp.  Those with a build for developers
# (make DEVELOPER=1) lie apart.
servers_dir()
{
	local apart=

	[ "${DEVELOPER:-0}" != 1 ] || apart=/developer
	mkdir -p "$build" 2>/dev/null || true
	if [ -n "${INFER_SERVERS:-}" ]; then
		printf '%s\n' "$INFER_SERVERS$apart"
	elif [ "$(id -u)" != 0 ] || as_server_user test -r "$build" -a -x "$build" 2>/dev/null; then
		printf '%s\n' "$build$apart"
	else
		printf '/var/tmp/infer-servers-%s%s\n' "$(printf %s "$build" | cksum | cut -d' ' -f1)" "$apart"
	fi
}

cores()
{
	nproc
}

# Run the calling script again in a copy of the checkout, where the user of the servers cannot
# read the checkout itself (a clone below /root, say).
run_in_readable_checkout()
{
	local there user

	[ "$(id -u)" = 0 ] || return 0
	user=$(server_user) || exit 1
	as_server_user test -r "$top/script" -a -x "$top/script" && return
	[ -z "${INFER_COPIED:-}" ] || die "user $user cannot read $top"
	there=/var/tmp/infer-checkout-$(printf %s "$top" | cksum | cut -d' ' -f1)
	say "user $user cannot read $top: working in a copy, $there"
	mkdir -p "$there"
	chmod 755 "$there"
	if git -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
		# Tracked and new files, as they are now; those deleted since go from the copy too.
		find "$there" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
		(cd "$top" && git ls-files -co --exclude-standard -z | xargs -0 -r ls -d 2>/dev/null | tar -cf - -T -) | tar -C "$there" -xf - --no-same-owner
	else
		cp -rp "$top/." "$there/"
	fi
	chmod -R a+rX "$there"
	cd "$there"
	INFER_COPIED=yes INFER_BUILD=$there/build INFER_PARTS=$parts INFER_VENV=$venv exec "$there/script/$(basename "$0")" "$@"
}
