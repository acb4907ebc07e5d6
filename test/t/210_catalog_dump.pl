# Models go where dumps, databases and clusters go.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use IPC::Run;
use Test::More;

my $server = InferServer->start();
my ($three, $four, $five) = map { sql_bytes(add_model($_)) } 3, 4, 5;

# run(PROGRAM, USER, ARGUMENTS): status and what it wrote to standard error
sub run
{
	my ($program, $user, @arguments) = @_;
	my ($out, $err) = ('', '');
	my %environment = ($server->environment, PGUSER => $user);

	local @ENV{ keys %environment } = values %environment;
	IPC::Run::run([ $server->program($program), @arguments ], '<', '/dev/null', '>', \$out, '2>', \$err);
	note($err) if $err ne '';
	return ($? >> 8, $err);
}

sub dump_and_restore
{
	my ($user, $from, $to, $name, $dump_options, $restore_options) = @_;
	my $file = $server->write_file("$to.dump", '');
	my $status;

	chmod 0666, $file;
	($status) = run('pg_dump', $user, '-Fc', '-f', $file, @{ $dump_options || [] }, $from);
	is($status, 0, "$name: pg_dump");
	$server->safe_psql("CREATE DATABASE $to OWNER $user", database => 'postgres');
	($status) = run('pg_restore', $user, '-d', $to, @{ $restore_options || [] }, $file);
	is($status, 0, "$name: pg_restore");
	return;
}

my $versions = 'SELECT s.name, v.* FROM infer.model_version v JOIN infer.model_versions s USING (version, created) ORDER BY 1, 3';
my $chunks = q(SELECT encode(digest, 'hex'), name, chunk, md5(data) FROM infer.model_file ORDER BY 1, 2, 3);

sub same
{
	my ($from, $to, $name) = @_;

	for my $sql ($versions, $chunks, 'SELECT * FROM infer.model_counter ORDER BY 1')
	{
		is($server->safe_psql($sql, database => $to), $server->safe_psql($sql, database => $from), "$name: the same rows");
	}
	return;
}

# ---- a database's owner, no superuser ----

$server->safe_psql('CREATE ROLE olga LOGIN CREATEDB; CREATE ROLE bob LOGIN; CREATE DATABASE one OWNER olga', database => 'postgres');
$server->safe_psql(<<"SQL", user => 'olga', database => 'one');
CREATE EXTENSION infer;
SELECT infer.create_model('m', data => $three);
SELECT infer.create_model('m', data => $four, options => '{"features": ["a"]}');
SELECT infer.create_model('m', data => $five);
SELECT infer.activate_model('m', 2);
SELECT infer.drop_model('m', 3);
SELECT infer.create_model('Grüße, "Welt"', data => $five);
SELECT infer.grant_model('m', 'bob');
COMMENT ON SERVER m IS 'adds';
SQL
dump_and_restore('olga', 'one', 'two', 'owner');
same('one', 'two', 'owner');
my @two = (user => 'olga', database => 'two');
is($server->safe_psql("SELECT infer.predict('m', 1), infer.predict('m\@1', 1)", @two), '5|4', 'the restored versions answer');
is($server->safe_psql(q(SELECT infer.predict('Grüße, "Welt"', 1)), @two), '6', 'whatever they are called');
is($server->safe_psql("SELECT infer.predict('m', '{\"a\": 1}'::jsonb)", @two), '5', 'with their options');
is($server->safe_psql("SELECT infer.predict('m', 1)", user => 'bob', database => 'two'), '5', 'with their privileges');
is($server->safe_psql("SELECT description FROM infer.models WHERE name = 'm'", @two), 'adds', 'with their comments');
is($server->safe_psql("SELECT infer.create_model('m', data => $three)", @two), '4', 'and count on from where they were');

# ---- one name in two databases ----

is($server->safe_psql("SELECT infer.create_model('both', data => $three)", database => 'one'), '1', 'a name in one database');
is($server->safe_psql("SELECT infer.create_model('both', data => $five)", database => 'two'), '1', 'and in another');
is($server->safe_psql("SELECT infer.predict('both', 1)", database => 'one'), '4', 'means one model there');
is($server->safe_psql("SELECT infer.predict('both', 1)", database => 'two'), '6', 'and another here');

# ---- a superuser's dump, with models of others ----

$server->safe_psql('CREATE ROLE alice LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER infer TO alice');
$server->safe_psql("SELECT infer.create_model('hers', data => $three)", user => 'alice');
dump_and_restore('postgres', 'infer', 'three', 'superuser');
same('infer', 'three', 'superuser');
is($server->safe_psql("SELECT owner, infer.predict('hers', 1) FROM infer.models", user => 'alice', database => 'three'),
	'alice|4', 'a superuser restores the owners');
is($server->safe_psql("SELECT infer.create_model('more', data => $three)", user => 'alice', database => 'three'),
	'1', 'and the right to create models');
dump_and_restore('postgres', 'infer', 'four', 'without owners', [], [ '--no-owner', '--no-acl' ]);
is($server->safe_psql("SELECT owner, infer.predict('hers', 1) FROM infer.models", database => 'four'),
	'postgres|4', 'without owners they are the restorer\'s');

# ---- a role that is missing ----

my $file = $server->write_file('missing.dump', '');
chmod 0666, $file;
run('pg_dump', 'postgres', '-Fc', '-f', $file, 'infer');
$server->safe_psql("DROP DATABASE $_", database => 'postgres') for qw(three four);
$server->safe_psql('DROP OWNED BY alice');
$server->safe_psql('DROP ROLE alice; CREATE DATABASE six', database => 'postgres');
my ($status, $err) = run('pg_restore', 'postgres', '-d', 'six', $file);
is($status, 1, 'a missing role is an error of pg_restore');
like($err, qr/role "alice" does not exist/, 'which names it');
unlike($err, qr/infer\.model_/, 'but none of the tables');
is($server->safe_psql("SELECT owner, infer.predict('hers', 1) FROM infer.models", database => 'six'),
	'postgres|4', 'and the models are there');

# ---- encodings ----

$server->safe_psql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", database => 'postgres');
$server->safe_psql('CREATE EXTENSION infer', database => 'latin');
my $upload = $server->safe_psql('SELECT infer.begin_upload()', database => 'latin');
$server->safe_psql("SET client_encoding = 'UTF8'; SELECT infer.upload('$upload', 'Größe.bin', 1, '\\x0000c040');
	SELECT infer.upload('$upload', 'model.onnx', 1, " . sql_bytes(external_add_model('Größe.bin')) . ");
	SELECT infer.create_model('Grüße', upload => '$upload')", database => 'latin');
is($server->safe_psql("SET client_encoding = 'UTF8'; SELECT infer.predict('Grüße', 1)", database => 'latin'), '7', 'a file\'s name in another encoding');
run('pg_dump', 'postgres', '-Fc', '-f', $file, 'latin');
$server->safe_psql('CREATE DATABASE utf', database => 'postgres');
($status) = run('pg_restore', 'postgres', '-d', 'utf', $file);
is($status, 0, 'is restored into a third');
system 'rm', '-rf', glob $server->data_dir . '/pg_infer/pgsql_tmp/models/*';
$server->wait_for_new_engine($server->kill_engine('TERM'));
is($server->safe_psql("SELECT infer.predict('Grüße', 1)", database => 'utf'), '7', 'and means the same file');

# ---- copies of a database, and of a cluster ----

$server->safe_psql('CREATE DATABASE seven TEMPLATE two', database => 'postgres');
is($server->safe_psql("SELECT infer.predict('m', 1)", database => 'seven'), '5', 'a copied database has its models');

SKIP:
{
	skip 'pg_upgrade does not run as root', 3 if $> == 0;

	my $new = InferServer->start_with([ '--no-extension' ]);
	my $bin = $server->bin_dir;
	my @upgrade = ("$bin/pg_upgrade", '-b', $bin, '-B', $bin, '-d', $server->data_dir, '-D', $new->data_dir,
		'-U', 'postgres', '-s', $new->dir);
	my $out = '';

	$new->safe_psql('DROP DATABASE infer', database => 'postgres');
	$new->stop;
	$server->stop;
	chdir $new->dir;
	is(scalar(IPC::Run::run([ @upgrade, '--check' ], '>&', \$out) || 0), 1, 'pg_upgrade --check is content') or diag($out);
	is(scalar(IPC::Run::run(\@upgrade, '>&', \$out) || 0), 1, 'pg_upgrade succeeds') or diag($out);
	chdir '/';
	$new->start_again;
	is($new->safe_psql("SELECT infer.predict('m', 1)", user => 'olga', database => 'two'), '5', 'and the models answer');
}

done_testing();
