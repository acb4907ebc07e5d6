# Who may do what to models, and that roles, DDL and functions agree about it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start();
my $folder = "$InferServer::top/examples/diabetes";
my $three = sql_bytes(add_model(3));
my $four = sql_bytes(add_model(4));

sub fails { my ($user, $state, $sql, $name) = @_; return is($server->psql_sqlstate($sql, user => $user), $state, $name); }
sub answers { my ($user, $expected, $sql, $name) = @_; return is($server->safe_psql($sql, user => $user), $expected, $name); }

$server->safe_psql('CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN');

# ---- the right to create ----

fails('alice', '42501', "SELECT infer.create_model('m', data => $three)", 'creating needs USAGE on the wrapper');
fails('alice', '42501', 'SELECT infer.begin_upload()', 'so does uploading');
$server->safe_psql('GRANT USAGE ON FOREIGN DATA WRAPPER infer TO alice, carol');
answers('alice', '1', "SELECT infer.create_model('m', data => $three)", 'with it an ordinary role creates from data');
fails('alice', '42501', "SELECT infer.create_model('p', '$folder/model.onnx')", 'a path needs pg_read_server_files');
$server->safe_psql('GRANT pg_read_server_files TO alice');
answers('alice', '1', "SELECT infer.create_model('p', '$folder/model.onnx')", 'with it a path is read');
fails('carol', '42501', "SELECT infer.create_model('m', data => $four)", 'nobody adds a version to another\'s model');

# ---- the right to use ----

answers('alice', '4', "SELECT infer.predict('m', 1)", 'the owner uses a model');
fails('bob', '42501', "SELECT infer.predict('m', 1)", 'others do not');
answers('bob', '0', 'SELECT count(*) FROM infer.models', 'and do not see it');
answers('bob', '0', 'SELECT count(*) FROM infer.model_versions', 'nor its versions');
fails('bob', '42501', "SELECT infer.load_model('m')", 'nor may they have it loaded');
answers('alice', '', "SELECT infer.grant_model('m', 'bob')", 'it can be granted');
answers('bob', '4', "SELECT infer.predict('m', 1)", 'then they do');
answers('bob', 'm', 'SELECT name FROM infer.models', 'and see it');
for my $call ("activate_model('m', 1)", "drop_model('m')", "drop_model('m', 1)", "rename_model('m', 'n')",
	"grant_model('m', 'carol')", "revoke_model('m', 'bob')", "unload_model('m')")
{
	fails('bob', '42501', "SELECT infer.$call", "but $call is the owner's");
}

my $session = $server->background_psql(user => 'bob');
$session->query("PREPARE p AS SELECT infer.predict('m', 1)");
is($session->query('EXECUTE p'), '4', 'a prepared call answers');
answers('alice', '', "SELECT infer.revoke_model('m', 'bob')", 'a grant can be taken back');
$session->query('EXECUTE p');
like($session->errors, qr/42501/, 'a prepared call is checked at each execution');
answers('alice', '', 'GRANT USAGE ON FOREIGN SERVER m TO bob', 'GRANT is the same as grant_model');
is($session->query('EXECUTE p'), '4', 'and works at once');
answers('alice', '', 'REVOKE USAGE ON FOREIGN SERVER m FROM bob', 'so does REVOKE');
answers('alice', '', "SELECT infer.grant_model('m', 'public')", 'everybody is public');
answers('carol', '4', "SELECT infer.predict('m', 1)", 'and may then use it');
fails('alice', '42704', "SELECT infer.grant_model('m', 'nobody at all')", 'a role must exist');

for my $table (qw(model_counter model_version model_file model_upload model_upload_part))
{
	fails('bob', '42501', "SELECT * FROM infer.$table", "infer.$table is not for everybody");
}

# ---- what others put in the way ----

$server->safe_psql(<<'SQL', user => 'bob');
CREATE TEMP TABLE model_version AS SELECT 1 AS model_id;
CREATE TEMP TABLE pg_foreign_server AS SELECT 1 AS srvname;
SET search_path = pg_temp, infer, pg_catalog;
DO $$ BEGIN IF infer.predict('m', 1) <> 4 THEN RAISE 'wrong'; END IF; END $$;
DO $$ BEGIN IF (SELECT count(*) FROM infer.models) <> 1 THEN RAISE 'wrong'; END IF; END $$;
SQL
pass('tables of the caller\'s own change nothing');

# ---- uploads ----

my $upload = $server->safe_psql('SELECT infer.begin_upload()', user => 'alice');
fails('carol', '42704', "SELECT infer.upload('$upload', 'model.onnx', 1, $four)", 'an upload is its owner\'s');
$server->safe_psql("SELECT infer.upload('$upload', 'model.onnx', 1, substr($four, 1, 40));
	SELECT infer.upload('$upload', 'model.onnx', 2, substr($four, 41))", user => 'alice');
fails('carol', '42704', "SELECT infer.create_model('u', upload => '$upload')", 'and nobody else creates from it');
answers('alice', '1', "SELECT infer.create_model('u', upload => '$upload')", 'parts are put together');
answers('alice', '5', "SELECT infer.predict('u', 1)", 'into the model');
fails('alice', '42704', "SELECT infer.create_model('u', upload => '$upload')", 'an upload serves once');

# ---- DDL on anchors ----

$server->safe_psql('ALTER SERVER u RENAME TO "U 2"', user => 'alice');
answers('alice', '5', "SELECT infer.predict('U 2', 1)", 'ALTER SERVER renames a model');
fails('alice', '42602', 'ALTER SERVER "U 2" RENAME TO "u@2"', 'but not to what no model may be called');
fails('alice', '55000', 'ALTER SERVER m OPTIONS (SET id \'00000000-0000-0000-0000-000000000000\')', 'an id cannot be changed');
fails('alice', '55000', 'ALTER SERVER m OPTIONS (DROP id)', 'nor dropped');
my $id = $server->safe_psql(q(SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'm'));
fails('carol', '42710', "CREATE SERVER mine FOREIGN DATA WRAPPER infer OPTIONS (id '$id')", 'nor copied');
fails('carol', '22023', "CREATE SERVER mine FOREIGN DATA WRAPPER infer OPTIONS (id '" . uc($id) . "')", 'nor spelled otherwise');
fails('carol', '55000', 'CREATE SERVER mine FOREIGN DATA WRAPPER infer', 'a model is not made by CREATE SERVER');
$server->safe_psql('CREATE FOREIGN DATA WRAPPER other; CREATE SERVER taken FOREIGN DATA WRAPPER other;
	GRANT USAGE ON FOREIGN SERVER taken TO PUBLIC');
fails('alice', '42710', "SELECT infer.create_model('taken', data => $three)", 'a server\'s name is taken');
fails('alice', '42710', "SELECT infer.rename_model('m', 'taken')", 'for renaming too');
fails('alice', '42704', "SELECT infer.predict('taken', 1)", 'and such a server is no model');

# ---- roles that go ----

fails('postgres', '2BP01', 'DROP ROLE alice', 'a model keeps its owner from being dropped');
$server->safe_psql('REASSIGN OWNED BY alice TO carol');
answers('carol', 'U 2,m,p', q(SELECT string_agg(name, ',' ORDER BY name COLLATE "C") FROM infer.models WHERE owner = 'carol'),
	'REASSIGN OWNED moves models');
answers('carol', '2', "SELECT infer.create_model('m', data => $four)", 'with all rights');
fails('alice', '42501', "SELECT infer.drop_model('m')", 'which the owner before has lost');
$server->safe_psql('DROP OWNED BY alice; DROP ROLE alice');
$server->safe_psql('DROP OWNED BY carol');
fails('postgres', '42704', "SELECT infer.predict('m', 1)", 'DROP OWNED drops models');
fails('bob', '42501', "CREATE SERVER mine FOREIGN DATA WRAPPER infer OPTIONS (id '$id')", 'whose versions nobody picks up');
$server->safe_psql('GRANT USAGE ON FOREIGN DATA WRAPPER infer TO bob');
fails('bob', '42501', "CREATE SERVER mine FOREIGN DATA WRAPPER infer OPTIONS (id '$id')", 'not even who may create models');
isnt($server->safe_psql('SELECT count(*) FROM infer.model_version'), '0', 'they are left');
answers('bob', '1', "SELECT infer.create_model('b', data => $three)", 'until the next model is made');
is($server->safe_psql('SELECT count(*), count(DISTINCT digest) FROM infer.model_version'), '1|1', 'then versions without a model are gone');
is($server->safe_psql('SELECT count(*) FROM infer.model_counter'), '1', 'and their counters');
is($server->safe_psql('SELECT count(DISTINCT digest) FROM infer.model_file'), '1', 'and their files');
$server->safe_psql('DROP SERVER b', user => 'bob');
fails('bob', '42704', "SELECT infer.predict('b', 1)", 'DROP SERVER drops a model');

# ---- another schema ----

$server->safe_psql('CREATE DATABASE elsewhere', database => 'postgres');
$server->safe_psql('CREATE SCHEMA "My Ext"; CREATE EXTENSION infer SCHEMA "My Ext"', database => 'elsewhere');
is($server->safe_psql(qq(SELECT infer.create_model('m', data => $three); SELECT "My Ext".infer('m', 1)), database => 'elsewhere'),
	"1\n4", 'the extension may live in any schema, and infer() with it');

# ---- a database's owner is enough ----

$server->safe_psql('CREATE ROLE dave LOGIN; CREATE DATABASE daves OWNER dave', database => 'postgres');
my %dave = (user => 'dave', database => 'daves');
$server->safe_psql('CREATE SCHEMA infer', %dave);
is($server->psql_sqlstate('CREATE EXTENSION infer SCHEMA infer', %dave), '22023', 'the extension\'s own schema is not infer');
is($server->psql_sqlstate('CREATE EXTENSION infer', %dave), '42P06', 'a schema infer of somebody else is in the way');
$server->safe_psql('DROP SCHEMA infer; CREATE EXTENSION infer', %dave);
is($server->safe_psql("SELECT infer.create_model('m', data => $three)", %dave), '1', 'a database\'s owner creates models');
$server->safe_psql('GRANT USAGE ON FOREIGN DATA WRAPPER infer TO bob', %dave);
is($server->safe_psql("SELECT infer.create_model('n', data => $three)", user => 'bob', database => 'daves'), '1', 'and lets others do so');
is($server->psql_sqlstate('DROP EXTENSION infer', %dave), '2BP01', 'models keep the extension');

done_testing();
