# Jobs and whom they belong to: rights that are taken away, things that are dropped, names, functions and
# triggers that try for more, dumps, standbys, and another version of the extension.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use File::Path qw(make_path);
use InferServer;
use IPC::Run;
use Test::More;
use TinyModel;

my %settings = ('infer.device' => 'null:delay=5', 'infer.batch_rows' => 16, 'infer.max_job_workers' => 2);
my $server = InferServer->start(%settings, wal_level => 'replica');
my $three = sql_bytes(add_model(3));
my @alice = (user => 'alice');
my @bob = (user => 'bob');

# The job's row in infer.jobs, when it has ended: state, done and so on as the columns say.
sub ended
{
	my ($job, $columns, %options) = @_;
	my $on = $options{server} || $server;

	$on->poll_query_until("SELECT finished IS NOT NULL FROM infer.jobs WHERE job = $job", 't', database => $options{database});
	return $on->safe_psql("SELECT $columns FROM infer.jobs WHERE job = $job", database => $options{database});
}

# A table of so many rows, of alice's; a trigger counts writes.
sub table
{
	my ($name, $rows) = @_;

	$server->safe_psql(<<"SQL", @alice);
CREATE TABLE $name (id int PRIMARY KEY, x real, y double precision, writes int NOT NULL DEFAULT 0);
INSERT INTO $name SELECT i, i FROM generate_series(1, $rows) i;
CREATE FUNCTION ${name}_written() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN NEW.writes = OLD.writes + 1; RETURN NEW; END\$\$;
CREATE TRIGGER written BEFORE UPDATE ON $name FOR EACH ROW EXECUTE FUNCTION ${name}_written();
SQL
	return;
}

sub submit
{
	my ($arguments, %options) = @_;

	return $server->safe_psql("SELECT infer.submit_job($arguments)", @alice, %options);
}

# Until some rows are written.
sub under_way
{
	my ($job) = @_;

	return $server->poll_query_until("SELECT done > 0 FROM infer.jobs WHERE job = $job");
}

$server->safe_psql(<<"SQL");
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE carol LOGIN IN ROLE alice;
GRANT USAGE ON FOREIGN DATA WRAPPER infer TO alice, bob;
GRANT CREATE ON SCHEMA public TO alice, bob;
SQL
$server->safe_psql("SELECT infer.create_model('add', data => $three); SELECT infer.grant_model('add', 'bob')", @alice);

# ---- rights, at submission ----

table('t', 100);
for (['bob', "'add', 't', 'x', 'y'", 'a table of others'], ['bob', "'add', source => 'SELECT id, x FROM t', key => 'id', target => 't', output => 'y'", 'a query on it'])
{
	my ($user, $arguments, $name) = @$_;

	is($server->psql_sqlstate("SELECT infer.submit_job($arguments)", user => $user), '42501', "$name is refused at once");
}
$server->safe_psql('GRANT SELECT ON t TO bob', @alice);
is($server->psql_sqlstate("SELECT infer.submit_job('add', 't', 'x', 'y')", @bob), '42501', 'who may read but not write it, too');
$server->safe_psql('GRANT UPDATE (y) ON t TO bob', @alice);
my $job = submit("'add', 't', 'x', 'y'", @bob);
is(ended($job, 'state, done, owner'), 'completed|100|bob', 'the right to update the output column is enough');
is($server->safe_psql("SELECT count(*) FROM infer.jobs WHERE job = $job", @alice), '0', 'others do not see it');
isnt($server->psql_sqlstate("SELECT infer.$_($job)", @alice), '', "nor $_") for qw(cancel_job retry_job drop_job wait_job job_manifest);

# ---- rights that are taken away, and what is dropped, while a job runs ----

my $number = 0;
for (
	# %1$s is the table, %2$s the model
	['the right to write', 'REVOKE UPDATE ON %1$s FROM alice', '42501', 'permission denied', 'GRANT UPDATE ON %1$s TO alice'],
	['the output column', 'ALTER TABLE %1$s DROP COLUMN y', '42703', '"?y"?'],
	['an input column', 'ALTER TABLE %1$s DROP COLUMN x', '42703', '"?x"?'],
	['the table', 'DROP TABLE %1$s', '42P01', 'does not exist'],
	['the model', q{SELECT infer.drop_model('%2$s')}, '42704', '%2$s'],
	['the right to the model', 'ALTER SERVER %2$s OWNER TO postgres', '42501', '%2$s', 'GRANT USAGE ON FOREIGN SERVER %2$s TO alice'],
)
{
	my ($what, $statement, $sqlstate, $message, $mend) = @$_;
	my ($table, $model) = ('lost_' . ++$number, "model_$number");

	table($table, $mend ? 8000 : 20000);
	$server->safe_psql("SELECT infer.create_model('$model', data => $three)", @alice);
	my $job = submit("'$model', '$table', 'x', 'y'");
	my $other = submit("'add', 't', 'x', 'y'");

	under_way($job);
	no warnings 'redundant';
	$server->safe_psql(sprintf $statement, $table, $model);
	my $expected = sprintf $message, $table, $model;
	like(ended($job, 'state, sqlstate, done > 0 AND done < total, last_error'), qr/^failed\|$sqlstate\|t\|.*$expected/s,
		"$what is lost during a job: it fails and says so");
	is(ended($other, 'state'), 'completed', '... another one is not concerned');
	next unless $mend;
	my $done = $server->safe_psql("SELECT done FROM infer.jobs WHERE job = $job");
	is($server->safe_psql("SELECT count(*), max(writes) FROM $table WHERE y = x + 3"), "$done|1", '... what it did stays');
	$server->safe_psql(sprintf $mend, $table, $model);
	$server->safe_psql("SELECT infer.retry_job($job)", @alice);
	is(ended($job, 'state, done'), 'completed|8000', '... and it can be taken up again');
	is($server->safe_psql("SELECT count(*), min(writes), max(writes) FROM $table WHERE y = x + 3"), '8000|1|1', '... writing each row once');
}

# A model that is made anew under the same name and version is another one.
table('anew', 20000);
$server->safe_psql("SELECT infer.create_model('again', data => $three)", @alice);
$job = submit("'again', 'anew', 'x', 'y'");
under_way($job);
$server->safe_psql("BEGIN; SELECT infer.drop_model('again'); SELECT infer.create_model('again', data => " . sql_bytes(add_model(4)) . '); COMMIT', @alice);
like(ended($job, 'state, last_error'), qr/^failed\|.*again\@1/, 'a model that is made anew during a job is not used');
is($server->safe_psql('SELECT count(*) FROM anew WHERE y = x + 4'), '0', '... for any row');

# One that is renamed is the same.
table('renamed', 8000);
$server->safe_psql("SELECT infer.create_model('old_name', data => $three)", @alice);
$job = submit("'old_name', 'renamed', 'x', 'y'");
under_way($job);
$server->safe_psql("SELECT infer.rename_model('old_name', 'new_name')", @alice);
is(ended($job, 'state, done, failed'), 'completed|8000|0', 'a model that is renamed during a job goes on with it');
is($server->safe_psql('SELECT count(*), max(writes) FROM renamed WHERE y = x + 3'), '8000|1', '... for all rows');

# A role that goes: all that it owns is somebody else's, and its job nobody's.
$server->safe_psql('CREATE ROLE dave LOGIN; GRANT USAGE ON SCHEMA public TO dave');
table('left_over', 20000);
$server->safe_psql("GRANT SELECT, UPDATE ON left_over TO dave; SELECT infer.grant_model('add', 'dave')", @alice);
$job = submit("'add', 'left_over', 'x', 'y'", user => 'dave');
under_way($job);
$server->safe_psql('DROP OWNED BY dave; DROP ROLE dave');
like(ended($job, 'state, owner, last_error'), qr/^failed\|dave\|./, 'a role that is dropped during its job: it fails');

# A condition that a row does not meet any more, when it is its turn after all.
table('conditional', 10);
my $busy = $server->background_psql(@alice);
$busy->query('BEGIN; UPDATE conditional SET x = -1 WHERE id = 5; UPDATE conditional SET x = 100 WHERE id = 6');
$job = submit("'add', 'conditional', 'x', 'y', condition => 'x > 0'");
$server->poll_query_until("SELECT done FROM infer.jobs WHERE job = $job", '8');
$busy->query('COMMIT');
is(ended($job, 'state, done, gone'), 'completed|9|1', 'a row that does not meet the condition any more is left alone');
is($server->safe_psql('SELECT y FROM conditional WHERE id IN (5, 6) ORDER BY id'), "\n103", '... one that was changed otherwise gets the result for what it is now');

# ---- names ----

table('named', 10);
$server->safe_psql('GRANT SELECT, UPDATE ON named TO bob', @alice);
my $lock = $server->background_psql(@alice);
$lock->query('BEGIN; SELECT FROM named WHERE id = 5 FOR UPDATE');
my $hers = submit("'add', 'named', 'x', 'y', name => 'nightly'");
my $his = submit("'add', 'named', 'x', 'y', name => 'nightly'", @bob);
isnt($his, $hers, 'two roles may use one name');
is(submit("'add', 'named', 'x', 'y', name => 'nightly'"), $hers, 'a second submission under the name returns the job that runs');
is(submit("'add', 'named', 'x', 'y', name => 'nightly'", @bob), $his, '... for each of them');
is(submit("'add', 'named', 'x', 'y', name => 'nightly'", user => 'carol') == $hers ? 1 : 0, 0, '... but a member of the role is a role of its own')
  if $server->safe_psql("GRANT SELECT, UPDATE ON named TO carol; SELECT infer.grant_model('add', 'carol')") eq '';
$lock->query('COMMIT');
is(ended($hers, 'state'), 'completed', 'when the lock is gone it ends');
ended($his, 'state');
isnt(submit("'add', 'named', 'x', 'y', name => 'nightly'"), $hers, 'then the name is free');

# ---- functions in the query, and triggers ----

$server->safe_psql(<<'SQL');
CREATE TABLE witness (who text, session text, source text);
GRANT INSERT, SELECT ON witness TO PUBLIC;
SQL
$server->safe_psql(<<'SQL', @alice);
CREATE FUNCTION seen(source text) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO public.witness VALUES (current_user, session_user, source);
	RETURN true;
END $$;
CREATE FUNCTION climb() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RESET ROLE;
	RESET SESSION AUTHORIZATION;
	INSERT INTO public.witness VALUES (current_user, session_user, 'trigger');
	IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
		CREATE ROLE evil SUPERUSER;
	END IF;
	RETURN NEW;
END $$;
CREATE TABLE climbed (id int PRIMARY KEY, y double precision);
CREATE TRIGGER climb BEFORE INSERT OR UPDATE ON climbed FOR EACH ROW EXECUTE FUNCTION climb();
SQL
$job = submit("'add', source => 'SELECT id, x FROM t WHERE seen(''query'')', key => 'id', target => 'climbed', output => 'y'");
is(ended($job, 'state, done, failed'), 'completed|100|0', 'a job with a function in its query and a trigger on its target');
is($server->safe_psql('SELECT DISTINCT who, session, source FROM witness ORDER BY source'), "alice|alice|query\nalice|alice|trigger",
	'... both ran as the role that submitted it, which RESET ROLE does not change');
is($server->safe_psql("SELECT count(*) FROM pg_roles WHERE rolname = 'evil'"), '0', '... nobody has got more rights');

# ---- what others put in the way ----

$server->safe_psql(<<'SQL', @bob);
CREATE FUNCTION public.trap(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.witness VALUES (current_user, session_user, 'trap: ' || what);
END $$;
CREATE TABLE public.job (job bigint, origin text, name text);
CREATE TABLE public.job_shard (job bigint);
CREATE TABLE public.model (name text);
CREATE TABLE public.pg_class (relname text);
CREATE FUNCTION public.format(text) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('format'); RETURN $1; END$$;
CREATE FUNCTION public.array_to_string(text[], text) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('array_to_string'); RETURN ''; END$$;
CREATE FUNCTION public.count(bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('count'); RETURN 1; END$$;
CREATE FUNCTION public.jsonb_get(jsonb, text) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('->>'); RETURN 1; END$$;
CREATE OPERATOR public.->> (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = public.jsonb_get);
CREATE FUNCTION public.bigint_equal(bigint, bigint) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('='); RETURN true; END$$;
CREATE OPERATOR public.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.bigint_equal);
CREATE FUNCTION public.int_equal(int, int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('= of int'); RETURN true; END$$;
CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.int_equal);
CREATE OPERATOR public.> (LEFTARG = int, RIGHTARG = int, FUNCTION = public.int_equal);
CREATE OPERATOR public.< (LEFTARG = int, RIGHTARG = int, FUNCTION = public.int_equal);
CREATE FUNCTION public.record_equal(record, record) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM public.trap('*='); RETURN true; END$$;
CREATE OPERATOR public.*= (LEFTARG = record, RIGHTARG = record, FUNCTION = public.record_equal);
SQL
my $temporary = <<'SQL';
SET search_path = pg_temp, public, pg_catalog, infer;
CREATE TEMP TABLE job (job bigint); CREATE TEMP TABLE job_shard (job bigint); CREATE TEMP TABLE pg_class (relname text);
SQL
$server->safe_psql('TRUNCATE witness; CREATE TABLE trapped (id int PRIMARY KEY, y double precision)');
for my $path ('public, pg_catalog, infer', 'pg_temp, public, pg_catalog')
{
	# whoever walks into it: a superuser who looks at jobs, and submits one
	$server->safe_psql("SET search_path = $path;
		SELECT job, state, eta, rows_per_second, last_error FROM infer.jobs;
		SELECT key, message FROM infer.job_errors;
		SELECT infer.job_manifest((SELECT max(job) FROM infer.jobs));");
	is($server->safe_psql('SELECT count(*) FROM witness'), '0', "search_path $path: looking at jobs runs nothing of others");
	$job = $server->safe_psql("$temporary SET search_path = $path; SELECT infer.submit_job('add', 'public.t', 'x', 'y')");
	is(ended($job, 'state, done'), 'completed|100', '... a job does what it would');
	for my $arguments ("'public.t', 'x', 'y', shards => 3", q{source => 'SELECT id, x FROM public.t', key => 'id', target => 'public.trapped', output => 'y'},
		q{source => 'SELECT id, x FROM public.t OFFSET 0', key => 'id', target => 'public.trapped', output => 'y'})
	{
		$job = $server->safe_psql("SET search_path = $path; SELECT infer.submit_job('add', $arguments)");
		is(ended($job, 'state, done'), 'completed|100', "... also with $arguments");
	}
	$server->safe_psql("SET search_path = $path; SELECT infer.wait_job($job), infer.cancel_job($job), infer.retry_job($job), infer.drop_job($job)");
	is($server->safe_psql('SELECT coalesce(string_agg(DISTINCT source, $$, $$), $$nothing$$) FROM witness'), 'nothing', '... and runs nothing of others in what infer itself writes');
	$server->safe_psql('TRUNCATE witness');
}

# ---- the search_path as submitted ----

$server->safe_psql(<<'SQL');
CREATE SCHEMA one; CREATE SCHEMA two;
CREATE TABLE one.s (id int PRIMARY KEY, x real, y double precision);
CREATE TABLE two.s (id int PRIMARY KEY, x real, y double precision);
INSERT INTO one.s VALUES (1, 1); INSERT INTO two.s VALUES (1, 2);
CREATE FUNCTION one.twice(real) RETURNS real LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
CREATE FUNCTION two.twice(real) RETURNS real LANGUAGE sql IMMUTABLE AS 'SELECT 20 * $1';
CREATE TABLE one.r (id int PRIMARY KEY, y double precision);
SQL
$job = $server->safe_psql(q{SET search_path = one; SELECT infer.submit_job('add', 's', 'twice(x)', 'y')});
is(ended($job, 'state, done'), 'completed|1', 'a job under the search_path of its submission');
is($server->safe_psql('SELECT y FROM one.s'), '5', '... finds the functions there');
$job = $server->safe_psql(q{SET search_path = two, one; SELECT infer.submit_job('add', source => 'SELECT id, twice(x) AS x FROM s', key => 'id', target => 'r', output => 'y')});
is(ended($job, 'state, done'), 'completed|1', '... so does a query');
is($server->safe_psql('SELECT y FROM one.r'), '43', '... and tables');

# ---- dump and restore ----

table('dumped', 8000);
$job = submit("'add', 'dumped', 'x', 'y', name => 'dumped'");
under_way($job);
my $file = $server->write_file('dump', '');
chmod 0666, $file;
{
	my %environment = $server->environment;
	local @ENV{ keys %environment } = values %environment;

	is(system($server->program('pg_dump'), '-Fc', '-f', $file, 'infer'), 0, 'pg_dump while a job runs');
	$server->safe_psql('CREATE DATABASE restored', database => 'postgres');
	is(system($server->program('pg_restore'), '-d', 'restored', $file), 0, 'pg_restore');
}
my %restored = (database => 'restored');
$server->poll_query_until("SELECT finished IS NOT NULL FROM infer.jobs WHERE job = $job", 't', %restored);
like($server->safe_psql("SELECT state, done < total, last_error FROM infer.jobs WHERE job = $job", %restored), qr/^cancelled\|t\|.*restored/,
	'a job that was unfinished is cancelled there, and says why');
my $done = $server->safe_psql("SELECT done FROM infer.jobs WHERE job = $job", %restored);
is($server->safe_psql("SELECT count(*), max(writes) FROM dumped WHERE y IS NOT NULL", %restored), "$done|1", '... what it had done is there, no more is done');
is($server->safe_psql("SELECT count(*) FROM infer.jobs WHERE state = 'completed'", %restored),
	$server->safe_psql("SELECT count(*) FROM infer.jobs WHERE state = 'completed' AND job < $job"), 'the history of others is there');
is($server->safe_psql("SELECT infer.job_manifest($job) ->> 'state'", user => 'alice', %restored), 'cancelled', '... its owner sees it');
is($server->safe_psql('SELECT count(*) FROM infer.jobs', user => 'bob', %restored),
	$server->safe_psql("SELECT count(*) FROM infer.jobs WHERE owner = 'bob'", %restored), '... and others theirs');
cmp_ok($server->safe_psql("SELECT infer.submit_job('add', 'dumped', 'x', 'y', name => 'dumped')", user => 'alice', %restored), '>', $job,
	'new jobs count on, and the name is free');
is(ended($job, 'state, done'), 'completed|8000', 'the job itself goes on where it was');

# ---- a standby that is promoted ----

my $standby = $server->start_standby();
table('promoted', 8000);
$job = submit("'add', 'promoted', 'x', 'y'");
under_way($job);
$server->safe_psql("SELECT pg_current_wal_lsn()");
$standby->poll_query_until("SELECT done > 0 FROM infer.jobs WHERE job = $job");
is($standby->safe_psql("SELECT state FROM infer.jobs WHERE job = $job"), 'in_progress', 'a standby shows the job');
$server->stop('immediate');
is($standby->safe_psql('SELECT pg_promote()'), 't', 'the standby is promoted in the middle of it');
is(ended($job, 'state, done, failed', server => $standby), 'completed|8000|0', '... and goes on with it');
is($standby->safe_psql('SELECT count(*), min(writes), max(writes) FROM promoted WHERE y = x + 3'), '8000|1|1', '... writing each row once');
$standby->stop('immediate');

# ---- ALTER EXTENSION UPDATE ----

# A private copy of the server's files, with one more version.
my ($major) = `'@{[ $server->program('pg_config') ]}' --version` =~ /(\d+)/;
my $copy = $server->bin_dir =~ s{/server$major/.*}{/server$major}r;
my $servers = "$server->{parent}/servers";

make_path($servers);
is(system('cp', '-a', $copy, "$servers/"), 0, 'a private copy of the server');
local $ENV{INFER_SERVERS} = $servers;
local $ENV{INFER_NO_BUILD} = 1;
$server = InferServer->start(%settings);
my $share = `'@{[ $server->program('pg_config') ]}' --sharedir`;
chomp $share;
like($share, qr/^\Q$servers\E/, 'is what runs');
my $version = $server->safe_psql("SELECT extversion FROM pg_extension WHERE extname = 'infer'");
open my $script, '>', "$share/extension/infer--$version--$version.next.sql" or die $!;
print $script "COMMENT ON SCHEMA infer IS 'the next version';\n";
close $script;
$server->safe_psql('CREATE ROLE alice LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER infer TO alice; GRANT CREATE ON SCHEMA public TO alice');
$server->safe_psql("SELECT infer.create_model('add', data => $three)", @alice);
table('updated', 8000);
$job = submit("'add', 'updated', 'x', 'y'");
under_way($job);
is($server->psql_sqlstate("ALTER EXTENSION infer UPDATE TO '$version.next'"), '', 'ALTER EXTENSION UPDATE during a job');
is(ended($job, 'state, done'), 'completed|8000', '... which goes on');
is($server->safe_psql('SELECT count(*), max(writes) FROM updated WHERE y = x + 3'), '8000|1', '... as if nothing had been');
is($server->safe_psql("SELECT infer.job_manifest($job) #>> '{versions,extension}'"), $version, '... and knows by which version it was submitted');

done_testing();
