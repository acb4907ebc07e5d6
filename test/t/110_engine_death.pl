# The engine killed, crashed and stopped, twenty times under eight sessions: the server goes on,
# no row is wrong, every call is answered or fails.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $sessions = 8;
my @signals = ((('KILL') x 5, 'SEGV') x 3, 'STOP', 'STOP');

my $server = InferServer->start('infer.engine_timeout' => '1s');
my $three = sql_bytes(add_model(3));
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
$server->safe_psql(q{
	CREATE TABLE stop (now boolean);
	CREATE FUNCTION hammer() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		answered bigint := 0; wrong bigint := 0; failed text[] := '{}'; x float8; y float8;
	BEGIN
		LOOP
			x := (random() * 1000)::int;
			BEGIN
				y := infer.predict('m', x);
				IF y IS DISTINCT FROM x + 3 THEN wrong := wrong + 1; END IF;
				answered := answered + 1;
			EXCEPTION WHEN OTHERS THEN
				failed := failed || SQLSTATE::text;
			END;
			EXIT WHEN EXISTS (SELECT FROM stop);
		END LOOP;
		RETURN answered || ' ' || wrong || ' ' || array_to_string(failed, ',');
	END $$;
});

my $start_time = $server->postmaster_start_time;
my @hammers = map { $server->background_psql() } 1 .. $sessions;
$_->send('SELECT hammer()') for @hammers;

# ---- one after the other ----

for my $signal (@signals)
{
	my $old = $server->kill_engine($signal);
	$server->wait_for_new_engine($old);

	# somebody must have been answered by the new one before it is killed, too
	is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', "after SIG$signal the next call is answered");
}

$server->safe_psql('INSERT INTO stop VALUES (true)');
my ($answered, $wrong, @failed) = (0, 0);
for my $hammer (@hammers)
{
	my ($a, $w, $f) = split / /, $hammer->wait, 3;
	is($hammer->errors, '', 'a session ends well');
	$answered += $a;
	$wrong += $w;
	push @failed, split /,/, $f if defined $f;
}
is($wrong, 0, 'no row is wrong');
cmp_ok($answered, '>', $sessions, "calls are answered ($answered)");
is_deeply([ grep { $_ ne 'IF004' } @failed ], [], 'no call fails but by being computed at two deaths');
is($server->postmaster_start_time, $start_time, 'the postmaster is the same');
unlike($server->log, qr/reinitializing|PANIC/, 'the server did not restart');
is(scalar(my @engines = $server->engine_pids), 1, 'there is one engine');
my $terminated = () = $server->log =~ /the engine was terminated by signal/g;
is($terminated, scalar @signals, 'each end is in the log');
like($server->log, qr/event loop gave no sign of life for 1000 ms/, 'and why the stopped ones were killed');

# ---- a backend that holds a call when its engine dies keeps its other work ----

my $session = $server->background_psql();
$session->query('BEGIN; CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)');
$server->wait_for_new_engine($server->kill_engine('KILL'));
is($session->query("SELECT infer.predict('m', 2)"), '5', 'an open transaction does not notice');
$session->query('COMMIT');
is($server->safe_psql('SELECT count(*) FROM kept'), '1', 'and commits');

# ---- the supervisor is stopped for longer than the engine's timeout ----

my $engine = $server->engine_pid;
my $supervisor = $server->supervisor_pid;
kill 'STOP', $supervisor;
is($server->safe_psql("SELECT count(infer.predict('m', i)) FROM generate_series(1, 100) i"), '100',
	'the engine does not need its supervisor to answer');
sleep 3;
kill 'CONT', $supervisor;
sleep 1;
is($server->engine_pid, $engine, 'nor is it killed because nobody looked at its heartbeats');

# ---- what the engine leaves behind ----

my $cache = $server->data_dir . '/pg_infer/pgsql_tmp';
opendir my $dir, $cache or die "$cache: $!";
is_deeply([ sort grep { !/^\./ } readdir $dir ], [qw(engine.lock engine.sock models models.lock)], 'no file is left behind');

done_testing();
