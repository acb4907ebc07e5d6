# Each setting does what docs/settings.md says of it, and takes effect when that says: at the
# server's start, or at a reload.  Where another script is about a setting, it is not here.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $three = sql_bytes(add_model(3));

# ---- at the server's start: cpu_threads, nice, memory ----

my $server = InferServer->start('infer.cpu_threads' => 1, 'infer.nice' => 7, 'infer.memory' => '16MB');

sub niceness { return (split ' ', InferServer::_slurp('/proc/' . $server->engine_pid . '/stat') =~ s/.*\) //r)[16]; }
sub threads { my @tasks = glob '/proc/' . $server->engine_pid . '/task/*'; return scalar @tasks; }

$server->safe_psql("SELECT infer.create_model('m', data => $three)");
is($server->safe_psql('SELECT threads FROM infer.devices WHERE in_use'), '1', 'infer.cpu_threads: one thread computes');
my $few = threads();
is(niceness(), '7', 'infer.nice is the engine\'s');

# Six megabytes of weights each: two fit, not three.
my $elements = 1_500_000;
$server->safe_psql("SELECT infer.create_model('large$_', data => " . sql_bytes(large_add_model($_, $elements)) . ')') for 1 .. 3;
my $input = "array_fill(1, ARRAY[$elements])";
for my $round (1, 2)
{
	for my $i (1 .. 3)
	{
		is($server->safe_psql("SELECT (infer.outputs('large$i', $input))[1], memory_used <= memory_budget AND memory_budget = 16 << 20 FROM infer.devices WHERE in_use"),
			1 + $i . '|t', "infer.memory: large$i answers, within the budget");
		is($server->safe_psql("SELECT state FROM infer.loaded_models WHERE model = 'large$i'"), 'loaded', 'and is loaded');
	}
	is($server->safe_psql("SELECT state FROM infer.loaded_models WHERE model = 'large1'"), 'evicted', 'the one that was used longest ago has gone');
}
is($server->psql_sqlstate("SELECT infer.create_model('huge', data => " . sql_bytes(large_add_model(1, 4_500_000)) . "); SELECT infer.load_model('huge')"),
	'53200', 'a model that does not fit by itself is refused');

my $cores = `nproc`;
$server->restart('infer.cpu_threads' => 0, 'infer.nice' => 0, 'infer.memory' => '1GB');
is($server->safe_psql('SELECT threads FROM infer.devices WHERE in_use'), 0 + $cores, 'infer.cpu_threads 0: as many as there are processors');
is(threads() - $few, $cores - 1, 'and that many are there') if $cores > 1;
is(niceness(), '0', 'infer.nice 0');
$server->safe_psql("SELECT (infer.outputs('large$_', $input))[1]") for 1 .. 3;
is($server->safe_psql("SELECT count(*) FROM infer.loaded_models WHERE state = 'loaded' AND model LIKE 'large_'"), '3', 'with more memory all of them stay');

# ---- at a reload: batch_delay, batch_rows, batch_tokens, job_share, queue_limit, payload_limit, engine_timeout ----

sub reload
{
	my ($name, $value, $told) = @_;
	my $size = $server->log_size;

	$server->reload("infer.$name" => $value);
	ok($server->wait_for_log(qr/infer engine: took the setting $name=$told\n/, $size), "a reload tells the engine infer.$name");
	return;
}
sub called { return $server->safe_psql("SELECT coalesce(sum(calls), 0) FROM infer.stats WHERE model = 'm' AND class = '$_[0]'"); }

$server->restart('infer.device' => 'null:delay=20', log_min_messages => 'debug1', 'infer.engine_timeout' => '1h', 'infer.job_share' => 0);
$server->safe_psql("SELECT infer.predict('m', 1)");
reload('batch_delay', 300_000, 300_000);
$server->safe_psql("SELECT infer.reset_stats(); SELECT infer.predict('m', 1)");
is($server->safe_psql("SELECT queue_time BETWEEN 280 AND 60000 FROM infer.stats WHERE model = 'm' AND class = 'interactive'"), 't', 'infer.batch_delay: a call waits for others');
reload('batch_delay', 0, 0);

my $crowd = "SELECT infer.predict('m', 1)";
$server->safe_psql('SELECT infer.reset_stats()');
is(($server->pgbench($crowd, '-c', 8, '-t', 20))[0], 0, 'a crowd');
cmp_ok($server->safe_psql("SELECT max(mean_batch_rows) FROM infer.stats WHERE model = 'm'"), '>', 2, 'gathers in batches');
reload('batch_rows', 2, 2);
$server->safe_psql('SELECT infer.reset_stats()');
is(($server->pgbench($crowd, '-c', 8, '-t', 20))[0], 0, 'another crowd');
is($server->safe_psql("SELECT max(mean_batch_rows) > 1 AND max(mean_batch_rows) <= 2 FROM infer.stats WHERE model = 'm'"), 't', 'infer.batch_rows: in batches of two');

# One row at a time, and interactive calls always wait (for more than half a second all of them
# would have to rest): a job has its share or nothing.
reload('batch_rows', 1, 1);
$server->safe_psql('SELECT infer.reset_stats()');
my $interactive = $server->background_pgbench("SELECT infer.predict('m', 1)", '-c', 32, '-j', 4, '-T', 120);
ok(InferServer::wait_until(sub { return called('interactive') > 10; }), 'interactive calls keep the device busy');
my $job = $server->background_psql();
$job->send("SET infer.request_class = 'job'; SELECT infer.predict('m', 1)");
my $before = called('interactive');
ok(InferServer::wait_until(sub { return called('interactive') > $before + 100; }), 'a hundred of them later');
is(called('job'), '0', 'infer.job_share 0: a job has not had its turn');
reload('job_share', 50, 50);
is($job->wait, '4', 'with a share it has');
$interactive->kill('TERM');
$interactive->finish;
$job->quit;
reload('batch_rows', 256, 256);
reload('batch_tokens', 4096, 4096);

my $hang = 'SELECT infer.predict(\'m\', 666)';
$server->restart('infer.device' => 'null:hang_on=666,delay=5', 'infer.engine_timeout' => '1h');
$server->safe_psql("SELECT infer.predict('m', 1)");
my @sessions = map { $server->background_psql() } 1 .. 3;
reload('queue_limit', 2, 2);
for my $i (0, 1)
{
	$sessions[$i]->send($hang);
	ok($server->poll_query_until('SELECT count(*) FROM infer.activity', $i + 1), 'a call that the device keeps');
}
is($server->psql_sqlstate($hang), 'IF002', 'infer.queue_limit: there is room for no more');
reload('queue_limit', 10, 10);
$sessions[2]->send($hang);
ok($server->poll_query_until('SELECT count(*) FROM infer.activity', 3), 'and then there is');
my $old = $server->engine_pid;
my $size = $server->log_size;
$server->reload('infer.engine_timeout' => '1s');
$server->wait_for_new_engine($old);
ok($server->wait_for_log(qr/device gave no sign of life for 1000 ms/, $size), 'infer.engine_timeout, at a reload too: a device that hangs is replaced');
is($_->wait, '', 'its calls fail'), $_->quit for @sessions;
reload('engine_timeout', '1h', 3_600_000);

$server->restart('infer.device' => 'auto');
is($server->psql_sqlstate("SELECT infer.outputs('large1', $input)"), '', 'a call of twelve megabytes');
reload('payload_limit', '2MB', 2048);
isnt($server->psql_sqlstate("SELECT infer.outputs('large1', $input)"), '', 'infer.payload_limit: is too large');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'a small one is not');
reload('payload_limit', '1GB', 1024 * 1024);
is($server->psql_sqlstate("SELECT infer.outputs('large1', $input)"), '', 'and then it is not, either');

# ---- of the session: spin_time ----

# Whether a processor is free to watch on is not ours to say; that nobody watches without time is.
my $spinner = $server->background_psql();
sub sleeps { return InferServer::_slurp('/proc/' . $spinner->backend_pid . '/status') =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? $1 : die; }
$spinner->query("SET infer.spin_time = 0; SELECT infer.predict('m', 1)");
my $sleeps = sleeps();
$spinner->query("DO \$\$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM infer.predict('m', i); END LOOP; END \$\$");
cmp_ok(sleeps() - $sleeps, '>', 500, 'infer.spin_time 0: a call sleeps at once');

done_testing();
