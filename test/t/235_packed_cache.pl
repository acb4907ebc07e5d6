# Packed models in the cache: what SQL shows of them, and that they go with the others.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.cache_size' => '6MB');
my $cache = $server->data_dir . '/pg_infer/pgsql_tmp/models';

sub new_engine { $server->wait_for_new_engine($server->kill_engine('TERM')); return; }
sub packed { return sort map { s{.*/}{}r } glob "$cache/packed/*"; }
sub cache_bytes { my $bytes = 0; $bytes += -s $_ for grep { -f } glob("$cache/*/*"); return $bytes; }
sub loaded { my ($name) = @_; return $server->safe_psql("SELECT from_cache, load_time > 0 FROM infer.loaded_models WHERE model = '$name'"); }
sub key { my ($name) = @_; return $server->safe_psql("SELECT key FROM infer.loaded_models WHERE model = '$name'"); }

# Whether the packed form of a model is there, now or soon.
sub is_packed
{
	my ($name) = @_;
	my $key = key($name);

	for (1 .. 50)
	{
		return 1 if grep { /^$key\./ } packed();
		select undef, undef, undef, 0.1;
	}
	return 0;
}

$server->safe_psql("SELECT infer.create_model('small', data => " . sql_bytes(add_model(3)) . ')');
$server->safe_psql("SELECT infer.create_model('wide', data => " . sql_bytes(product_model(3)) . ')');
is($server->safe_psql("SELECT infer.predict('small', 1), infer.predict('wide', 2)"), '4|8', 'models answer');
is(loaded('wide'), 'f|t', 'at first a model is packed');
ok(is_packed('wide'), 'its packed form is kept');
new_engine();
is($server->safe_psql("SELECT infer.predict('small', 1), infer.predict('wide', 2)"), '4|8', 'so they do with a new engine');
is(loaded('wide'), 't|t', 'which takes it from there');
is(loaded('small'), 'f|t', 'small models are not worth it');
is(scalar(my @one = packed()), 1, 'and not there');

# infer.unload_model and what comes after
$server->safe_psql("SELECT infer.unload_model('wide')");
is($server->safe_psql("SELECT infer.predict('wide', 0.5)"), '2', 'after unload_model it loads again');
is(loaded('wide'), 't|t', 'from the cache');

# a damaged one, as the log tells it
my ($file) = glob "$cache/packed/*";
truncate $file, 8192 or die "$file: $!";
new_engine();
is($server->safe_psql("SELECT infer.predict('wide', 2)"), '8', 'a packed model that was cut short is not believed');
is(loaded('wide'), 'f|t', 'but packed anew');
ok(is_packed('wide'), 'and kept again');
like($server->log, qr/infer engine: a packed model in the cache is damaged/, 'which the log tells');

# infer.cache_size bounds model files and packed models together
for my $i (1 .. 4)
{
	$server->safe_psql("SELECT infer.create_model('other$i', data => " . sql_bytes(product_model(10 + $i)) . ')');
	is($server->safe_psql("SELECT infer.predict('other$i', 1)"), 11 + $i, "other$i answers");
	select undef, undef, undef, 0.3;
	cmp_ok(cache_bytes(), '<=', 6 * 1048576, 'and the cache is not larger than infer.cache_size');
}
ok(!grep({ my $key = key('wide'); /^$key\./ } packed()), 'what was unused longest made room');
$server->safe_psql('SELECT infer.drop_model(name) FROM infer.models');
$server->safe_psql("SELECT infer.create_model('last$_', data => " . sql_bytes(product_model(20 + $_)) . ')') for 1 .. 6;
cmp_ok(cache_bytes(), '<=', 6 * 1048576, 'packed forms of dropped models go, too');

# any of it may be missing
system 'rm', '-rf', "$cache/packed";
new_engine();
is($server->safe_psql("SELECT infer.predict('last6', 1)"), '27', 'the whole folder may be missing');
ok(is_packed('last6'), 'and is made anew');

# no room at all
$server->restart('infer.cache_size' => '2MB');
system 'rm', '-rf', $cache;
new_engine();
is($server->safe_psql("SELECT infer.predict('last6', 1)"), '27', 'without room for the packed form the model answers');
is(scalar(my @none = packed()), 0, 'and it is not kept');
$server->stop;
done_testing();
