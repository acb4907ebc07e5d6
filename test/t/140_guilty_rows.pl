# A row that ends the engine is the only one that fails; a model whose rows keep doing so is
# disabled.  The null device crashes on a row that holds 666.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.device' => 'null:crash_on=666,delay=2');
my $three = sql_bytes(add_model(3));
my $four = sql_bytes(add_model(4));
open my $file, '<:raw', "$InferServer::top/examples/diabetes/model.onnx" or die "model.onnx: $!";
my $diabetes = do { local $/; sql_bytes(<$file>) };
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
$server->safe_psql("SELECT infer.create_model('other', data => $four)");
$server->safe_psql("SELECT infer.create_model('wide', data => $diabetes)");
my $start_time = $server->postmaster_start_time;

is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'an innocent row');
is($server->psql_sqlstate("SELECT infer.predict('m', 666)"), 'IF004', 'the guilty one fails with its own SQLSTATE');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'the next one is answered');
is($server->safe_psql("SELECT infer.try('m', 666) IS NULL"), 't', 'infer.try gives NULL for it');
is($server->safe_psql("SET infer.on_error = 'null'; SELECT infer.predict('m', 666) IS NULL"), 't', 'so does infer.on_error');
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'the same row again and again does not disable the model');

# Thirty-one innocent calls beside one guilty, all in flight together.
my @sessions = map { $server->background_psql() } 0 .. 31;
$_->query("SELECT infer.predict('m', 1)") for @sessions;
for my $i (0 .. 31)
{
	my $x = $i == 13 ? 666 : $i;
	$sessions[$i]->send("SELECT infer.predict('m', $x)");
}
my @wrong;
for my $i (0 .. 31)
{
	my $out = $sessions[$i]->wait;
	push @wrong, "$i: $out " . $sessions[$i]->errors
	  if $i == 13 ? $sessions[$i]->sqlstate ne 'IF004' : $out ne $i + 3;
}
is_deeply(\@wrong, [], 'beside thirty-one innocent ones only the guilty row fails');

# Five different inputs.
sub wide { my ($x) = @_; return "SELECT infer.predict('wide', 666, $x, 0, 0, 0, 0, 0, 0, 0, 0)"; }
my $good = "SELECT infer.predict('wide', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) IS NOT NULL";
for my $x (1 .. 4)
{
	is($server->psql_sqlstate(wide($x)), 'IF004', "the model's guilty row $x");
}
is($server->psql_sqlstate(wide(4)), 'IF004', 'the fourth again');
is($server->safe_psql($good), 't', 'four of them do not disable it');
is($server->psql_sqlstate(wide(5)), 'IF004', 'the fifth');
is($server->psql_sqlstate($good), 'IF005', 'then the model is disabled');
is($server->psql_sqlstate("SELECT infer.try('wide', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)"), 'IF005', 'infer.try does not hide that');
is($server->safe_psql("SELECT infer.predict('other', 1)"), '5', 'another model is not');
$server->safe_psql("SELECT infer.load_model('wide')");
is($server->safe_psql($good), 't', 'infer.load_model enables it again');

# An engine that is stopped on purpose makes nobody guilty.
my $session = $server->background_psql();
$session->query("SELECT infer.predict('m', 1)");
for my $i (1 .. 10)
{
	$session->send("SELECT infer.predict('m', 20) + infer.predict('m', 30)");
	$server->safe_psql('SELECT infer.restart_engine()');
	is($session->wait, '56', "restart $i: the calls are answered");
}
is($server->postmaster_start_time, $start_time, 'the postmaster is the same');
unlike($server->log, qr/reinitializing/, 'the server did not restart');

# ---- an engine that writes over the inputs as it dies ----

# Through the memory of the session, which shares the region: the string's place, as the engine
# might have left it.  Offsets as in protocol.h.
sub region_of
{
	my ($pid) = @_;

	open my $maps, '<', "/proc/$pid/maps" or return;
	my ($line) = grep { m{memfd:infer-region} } <$maps>;
	return defined $line && $line =~ /^([0-9a-f]+)-/ ? hex $1 : undef;
}

sub peek
{
	my ($mem, $at, $bytes) = @_;
	my $got = '';

	sysseek $mem, $at, 0;
	sysread $mem, $got, $bytes;
	return defined $got && length $got == $bytes ? $got : "\0" x $bytes;
}

sub is_running			# run_state is INFER_RUN_RUNNING, and running_row what is asked for
{
	my ($mem, $pid, $row) = @_;
	my $region = region_of($pid) or return 0;

	return peek($mem, $region + 136, 8) eq pack('VV', 2, $row);
}

SKIP:
{
	open my $fixture, '<:raw', "$InferServer::top/test/fixtures/values/echo_string.onnx" or die "echo_string.onnx: $!";
	my $words = do { local $/; sql_bytes(<$fixture>) };
	$server->restart('infer.device' => 'null:delay=2000');
	$server->safe_psql("SELECT infer.create_model('words', data => $words)");
	my $session = $server->background_psql();
	my $pid = $session->backend_pid;
	open my $mem, '+<:raw', "/proc/$pid/mem" or skip "no access to another process's memory", 4;
	my $began = $server->postmaster_start_time;
	my $engine = $server->engine_pid;

	$session->send("SELECT infer('words', 'hello')");
	ok(InferServer::wait_until(sub { is_running($mem, $pid, 0xffffffff) }), 'a call computes');
	$server->kill_engine('KILL');
	ok(InferServer::wait_until(sub { is_running($mem, $pid, 0) }), 'and again, alone');
	my $region = region_of($pid);
	my ($spans) = unpack 'Q<', peek($mem, $region + 4096 + 32, 8);
	sysseek $mem, $region + $spans, 0;
	syswrite $mem, pack('VV', 0x7fffffff, 0x7fffffff);
	$server->kill_engine('KILL');
	$session->wait;
	is($session->sqlstate, 'IF004', 'the row fails');
	is($server->postmaster_start_time, $began, 'and the server goes on');
}

# ---- a row that hangs the device ----

$server->restart('infer.device' => 'null:hang_on=777', 'infer.engine_timeout' => '1s');
$session = $server->background_psql()->send("SELECT infer.predict('m', 777)");
my $beside = $server->background_psql()->send("SELECT infer.predict('m', 7)");
$session->wait;
is($session->sqlstate, 'IF004', 'a row that hangs the device is killed with its engine');
is($beside->wait, '10', 'the one beside it is answered');
like($server->log, qr/gave no sign of life for 1000 ms, killing it/, 'the log says why');

# ---- a model whose constants hang the device ----

$server->restart('infer.device' => 'null:hang=1', 'infer.engine_timeout' => '1s');
open my $constants, '<:raw', "$InferServer::top/test/fixtures/onnx/row_axis.onnx" or die "row_axis.onnx: $!";
my $hanging = do { local $/; sql_bytes(<$constants>) };
is($server->psql_sqlstate("SELECT infer.create_model('constants', data => $hanging)"), 'IF001', 'a load that hangs the device fails');
like($server->log, qr/the engine's loader gave no sign of life for 1000 ms, killing it/, 'and the log says why');

# ---- a device that answers nothing but errors ----

$server->restart('infer.device' => 'null:lost=3');
my @answers = map { scalar $server->psql_sqlstate("SELECT infer.predict('m', 1)") } 1 .. 8;
is_deeply([ grep { $_ ne '' && $_ ne 'IF007' && $_ ne 'IF004' } @answers ], [], 'a lost device is an error at most');
like($server->log, qr/the engine (ended with status 1|was terminated)/, 'and the engine is replaced');

# With no model loaded there is no call that would notice it.
$server->restart('infer.device' => 'null:lost_load=6');
my $size = $server->log_size;
my $loses = sql_bytes(wide_add_model(3, 'n'));
is($server->psql_sqlstate(qq(SELECT infer.create_model('loses', data => $loses, options => '{"dims": {"n": 6}}'))), 'IF001',
	'a load that loses the device fails');
ok($server->wait_for_log(qr/the device is lost.*the engine ended with status 1/s, $size), 'and the engine is replaced');

done_testing();
