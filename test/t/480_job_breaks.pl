# What has broken jobs, or might: tables that are rewritten under them, altered again and again, cut off at the end.
#
# Between reading and writing the engine stands still (SIGSTOP), so that what others do to the rows in
# between is what the test says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

my $server = InferServer->start('infer.engine_timeout' => '10min', autovacuum => 'off', log_min_messages => 'log');

$server->safe_psql("SELECT infer.create_model('add', data => " . sql_bytes(add_model(1)) . ")");

# ---- helpers ----

sub submit
{
	my ($arguments, %options) = @_;

	return $server->safe_psql("SELECT infer.submit_job('add', $arguments)", %options);
}

# Its state and counts at the end.
sub ended
{
	my ($job) = @_;

	$server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')");
	return $server->safe_psql("SELECT state, done, failed, gone FROM infer.jobs WHERE job = $job", options => [ '-F', ' ' ]);
}

sub hold { kill 'STOP', $server->engine_pid }
sub release { kill 'CONT', $server->engine_pid }

# Until a job has read its rows, and waits for them.
sub wait_until_read
{
	my ($job) = @_;

	ok($server->poll_query_until("SELECT count(*) FROM infer.read_job_workers() w JOIN pg_stat_activity a USING (pid)
		WHERE w.job = $job AND w.chunk = 1 AND a.wait_event_type = 'Extension'", 1), "job $job has read rows");
}

# So many rows, all of one transaction; o is the other way round.
sub make_table
{
	my ($name, $count) = @_;

	$server->safe_psql(<<SQL);
CREATE TABLE $name (id int PRIMARY KEY, x float8, y float8, o int UNIQUE);
INSERT INTO $name SELECT g, g, NULL, $count - g FROM generate_series(1, $count) g;
SQL
	return;
}

# A job over a table of 60 rows, to which something happens between reading and writing.
sub meanwhile
{
	my ($name, @statements) = @_;
	my $job;

	hold();
	$job = submit("'$name', input => 'x', output => 'y'");
	wait_until_read($job);
	$server->safe_psql($_) for @statements;
	release();
	return ended($job);
}

sub wrong
{
	my ($name) = @_;

	return $server->safe_psql("SELECT count(*) FROM $name WHERE y <> x + 1") . ' wrong, '
		. $server->safe_psql("SELECT count(*) FROM $name WHERE y IS NULL") . ' not written';
}

# ---- other rows in the same places ----

make_table($_, 60) for qw(clustered vacuumed rewritten truncated cut thawed);

is(meanwhile('clustered', 'CLUSTER clustered USING clustered_o_key'), 'completed 60 0 0', 'CLUSTER during a job');
is(wrong('clustered'), '0 wrong, 0 not written', 'its rows have their own results');

is(meanwhile('vacuumed', 'DELETE FROM vacuumed WHERE id % 3 = 1', 'VACUUM FULL vacuumed'), 'completed 40 0 20', 'VACUUM FULL');
is(wrong('vacuumed'), '0 wrong, 0 not written', 'likewise');

is(meanwhile('rewritten', 'DELETE FROM rewritten WHERE id % 3 = 1', 'ALTER TABLE rewritten ALTER o TYPE bigint'), 'completed 40 0 20',
	'an ALTER TABLE that writes all rows anew');
is(wrong('rewritten'), '0 wrong, 0 not written', 'likewise');

is(meanwhile('truncated', 'TRUNCATE truncated', 'INSERT INTO truncated SELECT g, g * 2 FROM generate_series(31, 90) g'),
	'completed 30 0 30', 'TRUNCATE, and other rows: those with the same key are computed again');
is(wrong('truncated'), '0 wrong, 30 not written', 'and have the result of what they are now');
is($server->safe_psql("SELECT recomputed FROM infer.jobs ORDER BY job DESC LIMIT 1"), 30, 'which says so');

is(meanwhile('cut', 'DELETE FROM cut', 'VACUUM cut'), 'completed 0 0 60', 'a table that has no blocks any more');

# Frozen rows have lost their transactions.
$server->safe_psql('VACUUM FREEZE thawed');
is(meanwhile('thawed', 'DELETE FROM thawed', 'VACUUM thawed', 'INSERT INTO thawed SELECT g, g * 2 FROM generate_series(60, 1, -1) g',
	'VACUUM FREEZE thawed'), 'completed 60 0 0', 'frozen rows in the places of frozen rows');
is(wrong('thawed'), '0 wrong, 0 not written', 'are told apart');

# The same for results that go into another table.
make_table('source', 60);
$server->safe_psql('CREATE TABLE target (id int PRIMARY KEY, y float8)');
hold();
my $job = submit(q{source => 'SELECT id, x FROM source', key => 'id', target => 'target', output => 'y'});
wait_until_read($job);
$server->safe_psql($_) for 'UPDATE source SET x = x * 2 WHERE id % 3 = 0', 'DELETE FROM source WHERE id % 3 = 1', 'CLUSTER source USING source_o_key';
release();
is(ended($job), 'completed 40 0 20', 'a source that is rewritten');
is($server->safe_psql('SELECT count(*) FROM source JOIN target USING (id) WHERE target.y = source.x + 1'), 40, 'each row has the result of what it is');

# A part that does not belong to the table any more, though its rows are where they were; and another one in its place.
$server->safe_psql(<<'SQL');
CREATE TABLE parted (id int PRIMARY KEY, x float8, y float8) PARTITION BY RANGE (id);
CREATE TABLE parted1 PARTITION OF parted FOR VALUES FROM (1) TO (21);
CREATE TABLE parted2 PARTITION OF parted FOR VALUES FROM (21) TO (41);
CREATE TABLE parted3 PARTITION OF parted FOR VALUES FROM (41) TO (61);
INSERT INTO parted SELECT g, g FROM generate_series(1, 60) g;
CREATE TABLE parted3b (LIKE parted INCLUDING ALL);
INSERT INTO parted3b SELECT g, g * 2 FROM generate_series(51, 60) g;
SQL
is(meanwhile('parted', 'ALTER TABLE parted DETACH PARTITION parted2', 'BEGIN; ALTER TABLE parted DETACH PARTITION parted3;
	ALTER TABLE parted ATTACH PARTITION parted3b FOR VALUES FROM (41) TO (61); COMMIT'), 'completed 30 0 30', 'partitions that go and come');
is(wrong('parted'), '0 wrong, 0 not written', 'rows of the table have their results');
is($server->safe_psql('SELECT count(y) FROM (TABLE parted2 UNION ALL TABLE parted3) p'), 0, 'and those of others none');

# ---- altered again and again ----

make_table('altered', 20);
hold();
$job = submit(q{'altered', input => 'x', output => 'y'});
wait_until_read($job);
for my $type (qw(real float8 int float8 real))
{
	$server->safe_psql("ALTER TABLE altered ALTER x TYPE $type");
	release();
	select undef, undef, undef, 0.05;
	hold();
}
release();
is(ended($job), 'completed 20 0 0', 'a table that is altered again and again');
is(wrong('altered'), '0 wrong, 0 not written', 'has its results');

# ---- ended from within ----

make_table('ending', 100);
$server->safe_psql(<<'SQL');
CREATE FUNCTION cancel_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM infer.cancel_job(job) FROM infer.jobs WHERE state = 'in_progress';
	RETURN NEW;
END $$;
CREATE TRIGGER cancel_all BEFORE UPDATE ON ending FOR EACH ROW EXECUTE FUNCTION cancel_all();
SQL
$job = submit(q{'ending', input => 'x', output => 'y'});
is(ended($job), 'cancelled 64 0 0', 'a job that its own trigger cancels ends with the chunk');
unlike($server->log, qr/job $job waits/, 'at once');

# ---- jobs whose own tables cannot be written, as on a full disk ----

# A unique index stands in for the disk: what is to be written there is refused at once.
sub refusals { return scalar(() = $server->log =~ /duplicate key value/g) }

$server->reload(log_min_messages => 'error');
make_table('crowded', 10);
make_table('empty', 0);
$server->safe_psql(<<'SQL');
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'no room';
END $$;
CREATE TRIGGER no_room BEFORE UPDATE ON crowded FOR EACH STATEMENT EXECUTE FUNCTION no_room();
SELECT infer.drop_job(job) FROM infer.jobs;
SQL
my @others = map { submit(q{'empty', input => 'x', output => 'y'}) } 1, 2;
ended($_) for @others;
$server->safe_psql("UPDATE infer.job SET sqlstate = '53100' WHERE job = $others[0]; CREATE UNIQUE INDEX no_room ON infer.job (sqlstate)");
$job = submit(q{'crowded', input => 'x', output => 'y'});
$server->wait_for_log(qr/job $job waits 4 s: no room/);
cmp_ok(refusals(), '>', 0, 'what a job waits for cannot be noted');
is($server->safe_psql("SELECT chunk IS NULL, cardinality(pids) FROM infer.jobs WHERE job = $job"), 't|1', 'while it waits it has no chunk');
sleep 2;
unlike($server->log, qr/job $job waits 8 s/, 'it waits as long as it says, all the same');
$server->safe_psql('DROP INDEX infer.no_room; DROP TRIGGER no_room ON crowded');
is(ended($job), 'completed 10 0 0', 'and goes on when there is room');

$server->safe_psql("SELECT infer.drop_job($job); UPDATE infer.job SET sqlstate = NULL, state = CASE job WHEN $others[0] THEN 'expired' ELSE 'failed' END;
	CREATE UNIQUE INDEX no_room ON infer.job (state)");
my $refused = refusals();
hold();
$job = submit(q{'crowded', input => 'x', output => 'y', completion_window => '1 s'});
ok(InferServer::wait_until(sub { refusals() > $refused }), 'a job cannot be ended when its time is over');
sleep 2;
cmp_ok(refusals() - $refused, '<', 20, 'and tries again now and then');
$server->safe_psql('DROP INDEX infer.no_room');
is(ended($job), 'expired 0 0 0', 'until it can');
release();

# ---- what is not a job's to write ----

is($server->psql_sqlstate(q{SELECT infer.submit_job('add', 'pg_class', input => 'reltuples', output => 'relpages')}), '42809',
	'no job writes a catalog');
is($server->psql_sqlstate(q{SELECT infer.submit_job('add', 'infer.job', key => 'job', input => 'priority', output => 'faults')}), '42809',
	'nor the tables of jobs');

done_testing();
