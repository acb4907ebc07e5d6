# The server's model cache: any of it may be gone, damaged, too small or full.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use Fcntl qw(:flock);
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.cache_size' => '2MB');
our $cache = $server->data_dir . '/pg_infer/pgsql_tmp/models';
my $three = sql_bytes(add_model(3));

sub folders { return sort grep { $_ ne 'packed' } map { s{.*/}{}r } glob "$cache/*"; }	# that one is 235's
sub new_engine { $server->wait_for_new_engine($server->kill_engine('TERM')); return; }
sub sizes { my ($name) = @_; return $server->safe_psql("SELECT digest FROM infer.model_versions WHERE name = '$name'"); }

$server->safe_psql("SELECT infer.create_model('m', data => $three)");
my $digest = sizes('m');
is(join(' ', folders()), $digest, 'a created model lies in the cache, under its digest');
is((stat "$cache/$digest/model.onnx")[7], length(add_model(3)), 'with its file');

# ---- gone or damaged ----

system 'rm', '-rf', "$cache/$digest";
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'what the engine has mapped is not missed');
new_engine();
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'a missing folder is written anew');
is(join(' ', folders()), $digest, 'under its digest');

for my $damage (
	[ 'a changed byte', sub { open my $f, '+<:raw', $_[0] or die; seek $f, 60, 0; print $f "\xff"; close $f } ],
	[ 'a file cut short', sub { truncate $_[0], 10 or die } ],
	[ 'an empty file', sub { truncate $_[0], 0 or die } ],
	[ 'a missing file', sub { unlink $_[0] or die } ],
	[ 'a file too many', sub { open my $f, '>', "$_[0].more" or die; print $f 'x'; close $f } ],
	[ 'a link in its place', sub { unlink $_[0] or die; symlink '/etc/passwd', $_[0] or die } ],
	[ 'a pipe in its place', sub { unlink $_[0] or die; system('mkfifo', $_[0]) == 0 or die } ])
{
	my ($what, $do) = @$damage;

	$do->("$cache/$digest/model.onnx");
	new_engine();
	is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', "$what is found and made good");
	is(join(' ', map { s{.*/}{}r } glob "$cache/$digest/*"), 'model.onnx', 'the folder is whole again');
}

mkdir "$cache/writing.$digest" and chmod 0777, "$cache/writing.$digest";
system 'rm', '-rf', "$cache/$digest";
new_engine();
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'what a dead writer left is no hindrance');
is(join(' ', folders()), $digest, 'and is removed');

$server->stop;
system 'rm', '-rf', $server->data_dir . '/pg_infer';
$server->start_again;
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'the whole folder may be missing');

# Many sessions miss the same file: one writes.
system 'rm', '-rf', "$cache/$digest";
new_engine();
my @sessions = map { $server->background_psql() } 1 .. 8;
$_->send("SELECT infer.predict('m', 1)") for @sessions;
is(join(',', map { $_->wait } @sessions), join(',', (4) x 8), 'sessions that miss it together are all served');

# Parallel workers find it missing.
$server->safe_psql('CREATE TABLE many AS SELECT i FROM generate_series(1, 1000) i; ANALYZE many');
my $parallel = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;';
system 'rm', '-rf', "$cache/$digest";
new_engine();
like($server->safe_psql("$parallel EXPLAIN SELECT sum(infer.predict('m', i)) FROM many"), qr/Parallel Seq Scan/, 'a parallel plan');
is($server->safe_psql("$parallel SELECT sum(infer.predict('m', i)) FROM many"), 1000 * 1001 / 2 + 3000, 'writes it as well');

# Whoever waits for another writer can be cancelled.
system 'rm', '-rf', "$cache/$digest";
new_engine();
open my $lock, '+<', "$cache.lock" or die "$cache.lock: $!";
flock $lock, LOCK_EX or die;
is($server->psql_sqlstate("SET statement_timeout = '300ms'; SELECT infer.predict('m', 1)"), '57014', 'a wait for the cache can be cancelled');
close $lock;
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'and the next call is the writer');

# Files that vanish between their writer and the engine are written once more.
system 'rm', '-rf', "$cache/$digest";
new_engine();
my $engine = $server->engine_pid;
open $lock, '+<', "$cache.lock" or die "$cache.lock: $!";
flock $lock, LOCK_EX or die;
my $writer = $server->background_psql();
$writer->send("SELECT infer.predict('m', 1)");
$server->poll_query_until("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.relation = 'infer.model_file'::regclass AND a.pid <> pg_backend_pid()", '1');	# asked to write, and waits for the lock
kill 'STOP', $engine;
close $lock;
ok(InferServer::wait_until(sub { -e "$cache/$digest" }), 'the files are there');
system 'rm', '-rf', "$cache/$digest";
kill 'CONT', $engine;
is($writer->wait, '4', 'and may vanish before the engine has seen them');

# An engine that has stopped holds nobody for ever, and no lock.
kill 'STOP', $engine;
for my $call ("create_model('stuck', data => $three)", "load_model('m')", "unload_model('m')")
{
	is($server->psql_sqlstate("SET statement_timeout = '300ms'; SELECT infer.$call"), '57014', (split /\(/, $call)[0] . ' can be cancelled');
}
kill 'CONT', $engine;
is($server->safe_psql("SELECT infer.create_model('stuck', data => $three); SELECT infer.drop_model('stuck')"), "1\n", 'and then works');

# ---- gone while the server runs, with all that lies beside it ----

for my $gone ('engine.sock', '')
{
	my $old = $server->engine_pid;
	system 'rm', '-rf', $server->data_dir . "/pg_infer/pgsql_tmp/$gone";
	$server->wait_for_new_engine($old);
	is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', ($gone || 'the whole folder') . ' is made anew');
}

# ---- damaged in the table ----

system 'rm', '-rf', "$cache/$digest";
$server->safe_psql("UPDATE infer.model_file SET data = set_byte(data, 60, 255)");
new_engine();
is($server->psql_sqlstate("SELECT infer.predict('m', 1)"), 'XX001', 'damaged rows are told from a damaged cache');
is($server->psql_sqlstate("SELECT infer.predict('m', 1)"), 'XX001', 'again and again');
is(join(' ', folders()), '', 'and leave nothing in the cache');
$server->safe_psql('DELETE FROM infer.model_file');
is($server->psql_sqlstate("SELECT infer.predict('m', 1)"), 'XX001', 'missing rows too');
$server->safe_psql("SELECT infer.create_model('m', data => $three)");
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'creating it again repairs the version before');
$server->safe_psql("INSERT INTO infer.model_file SELECT digest, '../../../' || name, chunk, data FROM infer.model_file");
system 'rm', '-rf', "$cache/$digest";
new_engine();
is($server->psql_sqlstate("SELECT infer.predict('m', 1)"), '22023', 'a name from the table does not leave the cache');
ok(!-e $server->data_dir . '/model.onnx', 'and writes nothing elsewhere');
$server->safe_psql("DELETE FROM infer.model_file WHERE name LIKE '..%'");

# ---- no limit ----

$server->restart('infer.cache_size' => 0);
system 'rm', '-rf', "$cache/$digest";
mkdir "$cache/writing.$digest" and chmod 0777, "$cache/writing.$digest";
new_engine();
is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'infer.cache_size 0 is no limit');
is(join(' ', folders()), $digest, 'and rubbish is removed as well');
$server->restart('infer.cache_size' => '2MB');

# ---- too small ----

$server->safe_psql("SELECT infer.create_model('big$_', data => " . sql_bytes(add_model($_, 700_000)) . ')') for 1 .. 4;
is(scalar(my @held = folders()), 2, 'the cache holds what infer.cache_size allows');
is($server->safe_psql("SELECT infer.predict('big$_', 1)"), 1 + $_, "big$_ answers all the same") for 1 .. 4;
new_engine();
is($server->safe_psql("SELECT infer.predict('big$_', 1)"), 1 + $_, "big$_ answers with a new engine") for 1 .. 4;
is(scalar(@held = folders()), 2, 'and the cache does not grow');
is(join(' ', sort(sizes('big3'), sizes('big4'))), join(' ', folders()), 'what was used last stays');
is($server->psql_sqlstate("SELECT infer.create_model('huge', data => " . sql_bytes(add_model(1, 3_000_000)) . ')'),
	'53400', 'a model that cannot fit is refused');
is($server->safe_psql("SELECT count(*) FROM infer.models WHERE name = 'huge'"), '0', 'and not there');

$server->restart('infer.cache_size' => '0');
$server->safe_psql("SELECT infer.create_model('huge', data => " . sql_bytes(add_model(1, 3_000_000)) . ')');
is($server->safe_psql("SELECT infer.predict('huge', 1)"), '2', 'without a limit any model fits');
is($server->safe_psql("SELECT infer.predict('big$_', 1)"), 1 + $_, "big$_ too") for 1 .. 4;
is(scalar(grep { length == 64 } folders()), 5, 'and all of them stay');
$server->safe_psql("SELECT infer.drop_model('huge')");
$server->restart('infer.cache_size' => '2MB');

# ---- disk full ----

SKIP:
{
	# The server gets a small disk of its own below the cache; we look at it through its eyes.
	my @within = (qw(unshare --user --mount --map-current-user --keep-caps sh -c),
		'mount -t tmpfs -o size=1m,mode=0777 none "$0" && exec "$@"', $cache);
	skip 'a full disk: no file system can be mounted here', 4 if $> == 0 || system("@within[0 .. 4] true >/dev/null 2>&1") != 0;
	$server->stop->start_within(@within);
	local $cache = '/proc/' . $server->postmaster_pid . "/root$cache";
	my (undef, undef, $err) = $server->psql("SELECT infer.create_model('full', data => " . sql_bytes(add_model(1, 1_500_000)) . ')');

	like($err, qr/53100/, 'a full disk is told as such');
	is(join(' ', folders()), '', 'and what was written is removed');
	is($server->safe_psql("SELECT count(*) FROM infer.models WHERE name = 'full'"), '0', 'the model is not there');
	is($server->safe_psql("SELECT infer.predict('m', 1)"), '4', 'small ones still work');
	$server->stop->start_again;
}

# ---- by reference ----

my $folder = $server->write_file('referenced.onnx', add_model(7));
$server->safe_psql('CREATE ROLE rita LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER infer TO rita; GRANT pg_read_server_files TO rita');
is($server->safe_psql("SELECT infer.create_model('r', '$folder', '{\"store\": \"reference\"}')", user => 'rita'), '1', 'a reference is made');
is($server->safe_psql("SELECT count(*) FROM infer.model_file WHERE name = 'referenced.onnx'"), '0', 'whose files are not stored');
is($server->safe_psql("SELECT infer.predict('r', 1)", user => 'rita'), '8', 'and it answers');
new_engine();
is($server->safe_psql("SELECT infer.predict('r', 1)", user => 'rita'), '8', 'also by a new engine');
$server->safe_psql('REVOKE pg_read_server_files FROM rita');
new_engine();
is($server->psql_sqlstate("SELECT infer.predict('r', 1)", user => 'rita'), '42501', 'while its owner may read the file');
$server->safe_psql('GRANT pg_read_server_files TO rita');
$server->write_file('referenced.onnx', add_model(8));
new_engine();
(undef, undef, my $err) = $server->psql("SELECT infer.predict('r', 1)", user => 'rita');
like($err, qr/IF006: the model's files have changed.*Put them back and call infer\.load_model\(\)/s, 'a file that changed is not believed');
rename $folder, "$folder.away" or die;
new_engine();
(undef, undef, $err) = $server->psql("SELECT infer.predict('r', 1)", user => 'rita');
like($err, qr/58P01.*Put the files back.*opening the files that model "r", version 1, refers to/s, 'for one that has gone the error names the model');
rename "$folder.away", $folder or die;
$server->write_file('referenced.onnx', add_model(7));
is($server->safe_psql("SELECT infer.load_model('r'); SELECT infer.predict('r', 1)", user => 'rita'), "\n8", 'until it is what it was');

# ---- folders ----

my $parent = $server->write_file('.keep', '') =~ s{/\.keep}{}r;
mkdir "$parent/model" or die;
chmod 0755, "$parent/model";
$server->write_file('model/model.onnx', add_model(9));
symlink '/etc/passwd', "$parent/model/link" or die;
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/model')"), '22023', 'a link that leaves the folder is refused');
unlink "$parent/model/link";
symlink '../model', "$parent/model/link" or die;
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/model')"), '22023', 'also one to a folder');
unlink "$parent/model/link";
symlink 'model.onnx', "$parent/model/inner.txt" or die;
is($server->safe_psql("SELECT infer.create_model('f', '$parent/model')"), '1', 'one within it counts as a file');
unlink "$parent/model/inner.txt";
system 'mkfifo', "$parent/model/pipe";
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/model')"), '42809', 'a pipe is refused');
unlink "$parent/model/pipe";
mkdir "$parent/model/.git";
$server->write_file('model/.git/config', 'x');
is($server->safe_psql("SELECT infer.create_model('f', '$parent/model'); SELECT infer.predict('f\@2', 1)"), "2\n10", 'hidden files do not count');
is($server->psql_sqlstate("SELECT infer.create_model('f', 'model')"), '22023', 'a path is absolute');
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/none')"), '58P01', 'and there');
symlink 'loop', "$parent/loop" or die;
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/loop')"), '22023', 'and ends somewhere');
is($server->psql_sqlstate("SELECT infer.create_model('f', '/" . 'x' x 300 . "')"), '22023', 'and is not too long');
is($server->psql_sqlstate("SELECT infer.create_model('f', '$_')"), '42809', "$_ is refused")
  for $server->data_dir . '/pg_infer/pgsql_tmp/engine.sock', '/dev/zero';
my $sparse = $server->write_file('sparse.onnx', '');
truncate $sparse, 1 << 40 and chmod 0, $sparse or die;
is($server->psql_sqlstate("SELECT infer.create_model('f', '$sparse')"), '53400', 'what is too large is not even opened');
mkdir "$parent/empty" and chmod 0755, "$parent/empty";
is($server->psql_sqlstate("SELECT infer.create_model('f', '$parent/empty')"), '22023', 'a folder holds files');

# ---- a graph whose weights lie in another file ----

mkdir "$parent/external" and chmod 0755, "$parent/external";
$server->write_file('outside.bin', pack('f<', 66));
$server->write_file('external/w.bin', pack('f<', 6));
my $graph = $server->write_file('external/model.onnx', external_add_model('w.bin'));
is($server->safe_psql("SELECT infer.create_model('e', '$parent/external'); SELECT infer.predict('e', 1)"), "1\n7", 'it loads with its folder');
my ($status, undef, $err) = $server->psql("SELECT infer.create_model('e', '$graph')");
isnt($status, 0, 'but not alone');
like($err, qr/w\.bin/, 'which is told by the file\'s name');
for my $location ('../outside.bin', "$parent/outside.bin", '/etc/passwd', 'w.bin/../../outside.bin')
{
	$server->write_file('external/model.onnx', external_add_model($location));
	isnt($server->psql_sqlstate("SELECT infer.create_model('e', '$parent/external')"), '', "location $location is refused");
}

# ---- equal files, other options ----

my $wide = sql_bytes(wide_add_model(3, 'n'));
$server->safe_psql(qq(SELECT infer.create_model('two', data => $wide, options => '{"dims": {"n": 2}}')));
$server->safe_psql(qq(SELECT infer.create_model('three', data => $wide, options => '{"dims": {"n": 3}}')));
is($server->safe_psql("SELECT infer.outputs('two', ARRAY[1, 2]), infer.outputs('three', ARRAY[1, 2, 3])"), '{4,5}|{4,5,6}',
	'sizes of dimensions make models of their own');
is(sizes('two'), sizes('three'), 'of the same files');

# ---- a standby ----

my $standby = $server->start_standby();
$server->safe_psql("SELECT infer.create_model('late', data => " . sql_bytes(add_model(2)) . ')');
ok($standby->poll_query_until("SELECT count(*) = 1 FROM infer.models WHERE name = 'late'"), 'models reach a standby');
is($standby->safe_psql("SELECT infer.predict('late', 1), infer.predict('m', 1)"), '3|4', 'which serves them by its own engine');
is($standby->psql_sqlstate("SELECT infer.create_model('x', data => $three)"), '25006', 'and makes none');
$server->safe_psql("SELECT infer.create_model('late', data => $three); SELECT infer.activate_model('late', 2)");
ok($standby->poll_query_until("SELECT infer.predict('late', 1) = 4"), 'an activation reaches it too');

done_testing();
