# Megabytes of text: nobody else's short calls wait for them, every wait for them can be given up, and
# the engine's memory stays within its bounds.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;

my $server = InferServer->start('infer.payload_limit' => '64MB', max_connections => 20);
$server->safe_psql("SELECT infer.create_model('m', '$InferServer::top/test/fixtures/text/bert_mean')");
$server->safe_psql("SELECT infer.embed('m', 'a text')");
my $engine = $server->engine_pid;

# Texts of a megabyte that differ, more of them than anybody waits for.
my $endless = "SELECT sum(infer.token_count('m', repeat('a word ', 150000) || i)) FROM generate_series(1, 1000000) i";

sub preparing { return $server->safe_psql("SELECT count(*) FROM infer.activity WHERE state = 'preparing'"); }
sub are_gone { return $server->poll_query_until('SELECT count(*) FROM infer.activity', '0'); }

# ---- others ----

my $long = $server->background_psql();
$long->send($endless);
ok(InferServer::wait_until(sub { return preparing() > 0; }), 'long texts become tokens');
is($server->safe_psql("SELECT sum(infer.token_count('m', 'a short text ' || i)) > 0 FROM generate_series(1, 100) i"), 't', 'a statement of short ones is answered meanwhile');
my $short = $server->background_psql();
$short->query('SET infer.batching = off');
is($short->query("SELECT count(infer.embed('m', 'a short text ' || i)) FROM generate_series(1, 100) i"), '100', 'so are single calls');
is($server->safe_psql("SELECT count(DISTINCT infer.embed('m', repeat('a word ', 2000) || i, '{\"truncate\": true}')) > 0 FROM generate_series(1, 20) i"), 't',
	'and longer texts');
ok(!$long->is_done, 'the long ones are not done yet');
my $pid = $long->backend_pid;
$server->safe_psql("SELECT pg_cancel_backend($pid)");
$long->wait;
is($long->sqlstate, '57014', 'their statement can be cancelled');
ok(are_gone(), 'and leaves nothing in the engine');

# ---- one text that takes seconds ----

my $huge = "SELECT infer.token_count('m', repeat('a word ', 2000000))";		# 14 MB, and not to be interrupted
for my $how ('statement_timeout', 'infer.timeout')
{
	is($server->psql_sqlstate("SET $how = '50ms'; $huge"), $how eq 'statement_timeout' ? '57014' : 'IF003', "$how ends the wait for one long text");
	is($short->query("SELECT array_length(infer.embed('m', 'a short text'), 1)"), '48', 'and the next short one is answered');
}
ok(are_gone(), 'in the end nothing is left');
is($server->safe_psql("$huge = 2 + 2000000 * (infer.token_count('m', 'a word') - 2)"), 't', 'who waits for it has its answer');

# ---- memory ----

my @many = map { $server->background_psql() } 1 .. 6;
$_->query("SET infer.request_class = 'job'") for @many[0 .. 2];
$_->send($endless) for @many;
my $most = 0;
$server->safe_psql('SELECT infer.reset_stats()');
InferServer::wait_until(sub {
	my $rss = $server->process_rss($engine);

	$most = $rss if $rss > $most;
	return $server->safe_psql("SELECT coalesce(sum(prepare_time), 0) > 1000 FROM infer.stats") eq 't';
});
note("$most kB");
cmp_ok($most, '<', 400 * 1024, 'many sessions with long texts: the engine stays within its bounds (kB)');
my @pids = map { $_->backend_pid } @many;
$server->safe_psql("SELECT pg_terminate_backend($_)") for @pids;
ok(are_gone(), 'sessions that are terminated leave nothing behind');
is($server->engine_pid, $engine, 'it is the same engine throughout');
is($short->query("SELECT array_length(infer.embed('m', 'a short text'), 1)"), '48', 'and it answers');
$short->quit;

done_testing();
