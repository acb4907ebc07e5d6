# Files of JSON lines: each request has the response that the verb gives, whatever stands beside it in the file, whatever
# is killed meanwhile, and whatever the database's encoding; exports have the same bytes every time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use IPC::Run;
use JSON::PP;
use MIME::Base64 qw(decode_base64);
use TinyModel;
use Test::More;

my $server = InferServer->start('infer.device' => 'null:crash_on=-666', 'infer.cpu_threads' => 1);
my $json = JSON::PP->new->utf8->canonical;

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";

# ---- helpers ----

sub make_models
{
	my (%psql) = @_;

	for my $model ('bert_mean', 'bert_cross', 'bert_e5')
	{
		$server->safe_psql("\\set model $model\n\\set options '{\"precision\": \"f32\"}'\n\\i $InferServer::top/test/fixtures/text.psql\n",
			options => [ '-o', '/dev/null' ], %psql);
	}
	$server->safe_psql("SELECT infer.create_model('plus', data => " . sql_bytes(add_model(3)) . ")", %psql);
	return;
}

# A line of a file.
sub request
{
	my ($id, $url, %body) = @_;

	return $json->encode({ custom_id => $id, method => 'POST', url => $url, body => \%body });
}

sub submit_file
{
	my ($name, $bytes, %psql) = @_;
	my $file = $server->write_file($name, $bytes);

	return $server->safe_psql("SET client_min_messages = error; SELECT infer.submit_job_file('$file')", %psql);
}

sub ended
{
	my ($job, %psql) = @_;

	return $server->safe_psql("SELECT infer.wait_job($job, '$InferServer::timeout s')", %psql);
}

# The bytes of all lines; and those that two jobs over one file share.
sub export
{
	my ($job, %psql) = @_;

	return $server->safe_psql("SELECT line FROM infer.export_results($job)", %psql);
}

sub without_job { return $_[0] =~ s/"job-\d+-line-/"job-line-/gr; }

# By custom_id.
sub responses
{
	my ($lines) = @_;

	return { map { $_->{custom_id} // 'none' => $_ } map { $json->decode($_) } split /\n/, $lines };
}

sub quoted { my ($text) = @_; return "'" . ($text =~ s/'/''/gr) . "'"; }

# What SQL says, as JSON.
sub said { my ($sql, %psql) = @_; return $json->decode('[' . $server->safe_psql("SELECT to_json($sql)", %psql) . ']')->[0]; }

make_models();

# ---- each url, and what surrounds lines ----

my $text = qq(Gr\xc3\xbc\xc3\x9fe, "quoted" \\ and a tab\t.);
my $as_text = $text;
utf8::decode($as_text);
my $bytes = "\xEF\xBB\xBF" . join("\r\n",
	request('text', '/v1/embeddings', model => 'bert_mean', input => $as_text),
	request('texts', '/v1/embeddings', model => 'bert_mean@1', input => [ 'a', 'a longer text', 'a' ], dimensions => 7, user => 'me'),
	'',
	request('prompt', '/v1/embeddings', model => 'bert_e5', input => 'a', prompt => 'query', normalize => JSON::PP::false),
	" \t ",
	request('base64', '/v1/embeddings', model => 'bert_mean', input => 'a', encoding_format => 'base64'),
	request('ranked', '/v1/rerank', model => 'bert_cross', query => 'a', documents => [ 'b', { text => 'a c' }, $as_text ], return_documents => JSON::PP::true),
	request('best', '/v1/rerank', model => 'bert_cross', query => 'a', documents => [ 'b', 'a c', 'd' ], top_n => 1),
	request('row', '/v1/infer', model => 'plus', input => { x => 4 }),
	request('array', '/v1/infer', model => 'plus', input => [5]),
	request('number', '/v1/infer', model => 'plus', input => 6),
	request('infer', '/v1/infer', model => 'bert_mean', input => 'a'))
  . "\n" . '{"custom_id": "not UTF-8: ' . "\xff" . '", "url": "/v1/infer", "body": {}}'
  . "\n" . '{"custom_id": "' . ('x' x (16 << 20)) . '"}'
  . "\nnonsense\n"
  . request('chat', '/v1/chat/completions', model => 'plus', messages => []) . "\n"
  . request('wrong', '/v1/infer', model => 'plus', input => 'a') . "\n"
  . request('long', '/v1/embeddings', model => 'bert_mean', input => [ 'a', 'a ' x 1000, 'b' ]) . "\n"
  . request('killer', '/v1/infer', model => 'plus', input => [-666]) . "\n"
  . request('last', '/v1/infer', model => 'plus', input => [7]);
my $job = submit_file('requests.jsonl', $bytes);
is(ended($job), 'completed', 'a file of all kinds of lines ends');
is($server->safe_psql("SELECT model, total, done, failed, source ~ 'requests.jsonl' FROM infer.jobs WHERE job = $job"), 'requests|18|11|7|t', 'all lines are counted');
my $lines = export($job);
my $of = responses($lines);
is(join(' ', map { $_->{id} =~ /^job-$job-line-(\d+)$/ ? $1 : $_->{id} } map { $json->decode($_) } split /\n/, $lines),
	'1 2 4 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20', 'each has its line, in the order of the file');
is_deeply([ map { $_->{response}{status_code} } @$of{ 'text', 'best', 'last' } ], [ 200, 200, 200 ], 'what could be run has a response');

sub body { return $of->{ $_[0] }{response}{body}; }
sub embedding { my ($id, $i) = @_; return body($id)->{data}[$i]{embedding}; }

is_deeply(embedding('text', 0), said("infer.embed('bert_mean', " . quoted($text) . ')'), 'an embedding is that of infer.embed, digit by digit');
is_deeply([ map { $_->{index} } @{ body('texts')->{data} } ], [ 0, 1, 2 ], 'texts of an array have their places');
is_deeply(embedding('texts', 1), said("infer.embed('bert_mean', 'a longer text', '{\"dimensions\": 7}')"), 'and dimensions');
is_deeply(embedding('texts', 0), embedding('texts', 2), 'equal ones have equal embeddings');
is(body('texts')->{model}, 'bert_mean@1', 'the version is told');
is(body('texts')->{usage}{prompt_tokens}, said("2 * infer.token_count('bert_mean', 'a') + infer.token_count('bert_mean', 'a longer text')"), 'and the tokens');
is_deeply(embedding('prompt', 0), said("infer.embed('bert_e5', 'a', '{\"prompt\": \"query\", \"normalize\": false}')"), 'options stand beside the input');
is_deeply([ map { unpack 'f', pack 'f', $_ } unpack 'f<*', decode_base64(embedding('base64', 0)) ],
	[ map { unpack 'f', pack 'f', $_ } @{ said("infer.embed('bert_mean', 'a')") } ], 'base64 has the same numbers');
my @ranked = @{ body('ranked')->{results} };
is(scalar @ranked, 3, 'documents are ranked');
ok($ranked[0]{relevance_score} >= $ranked[1]{relevance_score} && $ranked[1]{relevance_score} >= $ranked[2]{relevance_score}, 'the best first');
is_deeply([ map { $_->{document}{text} } sort { $a->{index} <=> $b->{index} } @ranked ], [ 'b', 'a c', $as_text ], 'with their texts');
for my $result (@ranked)
{
	my $document = [ 'b', 'a c', $text ]->[ $result->{index} ];

	cmp_ok($result->{relevance_score}, '==', said("infer.rerank('bert_cross', 'a', " . quoted($document) . ')::real'), 'and their scores');
}
is(scalar @{ body('best')->{results} }, 1, 'top_n of them');
is_deeply([ map { body($_) } 'row', 'array', 'number', 'last' ], [ 7, 8, 9, 10 ], 'infer() by row, array and number');
is_deeply(body('infer'), said("infer('bert_mean', 'a')"), 'and by text');

is_deeply([ map { $of->{$_}{response} } 'chat', 'wrong', 'long', 'killer' ], [ (undef) x 4 ], 'what failed has no response');
is_deeply([ map { "$_->{code} $_->{sqlstate} $_->{line}" } map { $of->{$_}{error} } 'chat', 'wrong', 'long', 'killer' ],
	[ 'not_supported 0A000 16', 'invalid_request 42804 17', 'invalid_request 22023 18', 'engine_killed IF004 19' ], 'but an error, with its line');
like($of->{long}{error}{message}, qr/^input 1: the text has 1002 tokens/, 'of an array, the place too');
is_deeply([ map { "$_->{error}{code} $_->{error}{sqlstate} $_->{error}{line}" } grep { !defined $_->{custom_id} } map { $json->decode($_) } split /\n/, $lines ],
	[ 'invalid_request 22021 13', 'too_large 54000 14', 'invalid_request 22P02 15' ], 'those that are no request have no custom_id');
is($server->safe_psql("SELECT string_agg(key[1] || ' ' || state || ' ' || sqlstate, ', ' ORDER BY key[1]::int) FROM infer.job_errors WHERE job = $job"),
	'13 failed 22021, 14 failed 54000, 15 failed 22P02, 16 failed 0A000, 17 failed 42804, 18 failed 22023, 19 failed IF004', 'infer.job_errors has them by line');
is_deeply([ sort map { $_->{model} } @{ said("infer.job_manifest($job) -> 'models'") } ], [ 'bert_cross@1', 'bert_e5@1', 'bert_mean@1', 'plus@1' ], 'the manifest has the models');

# ---- the same bytes ----

is(export($job), $lines, 'exported again, it is the same');
my $again = submit_file('requests.jsonl', $bytes);
is(ended($again), 'completed', 'the same file again');
is(without_job(export($again)), without_job($lines), 'has the same responses');
is_deeply(said("infer.job_manifest($again) -> 'digests'"), said("infer.job_manifest($job) -> 'digests'"), 'and the same digests');
is($server->safe_psql("SELECT infer.retry_job($job)"), '7', 'what failed can be tried again');
is(ended($job), 'completed', 'and ends');
is(export($job), $lines, 'with the same errors');

# Many that failed come again in chunks that are worth it.
my $bad = submit_file('bad.jsonl', join "\n", request('fine', '/v1/infer', model => 'plus', input => [1]), map { request("bad-$_", '/v1/nowhere', model => 'plus') } 1 .. 5000);
is(ended($bad), 'completed', 'a file of bad lines, but for one');
my $chunks = $server->safe_psql("SELECT sum(chunks) FROM infer.job_shard WHERE job = $bad");
is($server->safe_psql("SELECT infer.retry_job($bad)"), '5000', 'all can be tried again');
is(ended($bad), 'completed', 'and fail again');
cmp_ok($server->safe_psql("SELECT sum(chunks) - $chunks FROM infer.job_shard WHERE job = $bad"), '<', 20, 'in few chunks');
is($server->safe_psql("SELECT done, failed FROM infer.jobs WHERE job = $bad"), '1|5000', 'and are counted once');

# ---- the documentation's lines, with a real model ----

SKIP:
{
	chomp(my $folder = `'$InferServer::top/script/fetch-models' --folder minilm`);
	skip 'minilm: all-MiniLM-L6-v2 could not be fetched', 4 if $? != 0;
	my $copy = $server->dir =~ s{/[^/]+$}{/minilm}r;
	my ($documented) = do { local (@ARGV, $/) = ("$InferServer::top/docs/jobs.md"); <> };
	my @documented = $documented =~ /^    (\{"custom_id".*"method".*)$/mg;

	system('cp', '-rL', $folder, $copy) == 0 && system('chmod', '-R', 'a+rX', $copy) == 0 or die "$folder cannot be copied";
	$server->safe_psql("SELECT infer.create_model('minilm', '$copy'); SELECT infer.create_model('reranker', '$InferServer::top/test/fixtures/text/bert_cross');
		SELECT infer.create_model('churn', '$InferServer::top/test/fixtures/values/regression.onnx', '{\"features\": [\"age\", \"plan_months\", \"calls\"]}')");
	$job = submit_file('documented.jsonl', join "\n", @documented);
	is(ended($job), 'completed', 'the lines of docs/jobs.md');
	is($server->safe_psql("SELECT done, failed FROM infer.jobs WHERE job = $job"), '4|0', 'are run as they stand there');
	$of = responses(export($job));
	is_deeply(embedding('a-1', 0), said("infer.embed('minilm', 'The food was delicious.')"), 'a real embedding');
	is_deeply([ map { scalar @{ $_->{embedding} } } @{ body('a-2')->{data} } ], [ 128, 128 ], 'and shorter ones');
}

# ---- from a client, and back ----

my $file = $server->write_file('client.jsonl', request('a', '/v1/infer', model => 'plus', input => [1]) . "\n" . request('b "\\"', '/v1/infer', input => [2]) . "\n");
my $out = $server->dir . '.out.jsonl';
$job = $server->safe_psql("\\set lines `cat $file`\nSELECT infer.import_requests(:'lines', 'plus')");
is(ended($job), 'completed', 'lines of a client');
$server->safe_psql("\\copy (SELECT line FROM infer.export_results($job)) TO '$out' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')\n");
my ($copied) = do { local (@ARGV, $/) = ($out); <> };
is($copied, export($job) . "\n", 'come back by \copy as they are');
is($json->decode((split /\n/, $copied)[1])->{custom_id}, 'b "\\"', 'quotes and backslashes too');
unlink $out;

# ---- who may ----

$server->safe_psql('CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE chief IN ROLE ann LOGIN');
$server->safe_psql("SELECT infer.grant_model('plus', 'ann')");
is($server->psql_sqlstate("SELECT infer.submit_job_file('$file')", user => 'ann'), '42501', 'a path is for pg_read_server_files');
my $mixed = request('a', '/v1/infer', model => 'plus', input => [1]) . "\n" . request('b', '/v1/embeddings', model => 'bert_mean', input => 'a');
my ($status, $said, $warning) = $server->psql("SELECT infer.import_requests(" . quoted($mixed) . ')', user => 'ann');
like($warning, qr/WARNING:.* 1 of 2 lines cannot be run\nDETAIL:  line 2: permission denied for model "bert_mean"/, 'a model that one may not use is its line\'s error');
is(ended($said, user => 'ann'), 'completed', 'the other line is run');
is_deeply([ map { $_->{error} ? $_->{error}{code} : $_->{response}{body} } map { $json->decode($_) } split /\n/, export($said, user => 'ann') ],
	[ 4, 'permission_denied' ], 'as its owner');
is($server->psql_sqlstate("SELECT infer.export_results($said)", user => 'bob'), '42501', 'others do not see the responses');
is(export($said, user => 'chief'), export($said), 'members of the role do');
is($server->psql_sqlstate("SELECT infer.import_requests(" . quoted(request('a', '/v1/infer', model => 'plus', input => [1])) . ')', user => 'bob'), '22023',
	'who may use no model of a file makes no job');

# ---- names ----

$server->restart('infer.device' => 'null:delay=1000');
my $named = "SELECT infer.import_requests(" . quoted($mixed) . ", name => 'nightly')";
$job = $server->safe_psql($named);
is($server->safe_psql($named), $job, 'of a name there is one at a time');
is($server->psql_sqlstate("SELECT infer.export_results($job)"), '55000', 'before its end there are no responses');
is($server->safe_psql("SELECT infer.cancel_job($job)"), 't', 'it can be cancelled');
is(ended($job), 'cancelled', 'it is');
is_deeply([ map { $_->{error}{code} } map { $json->decode($_) } split /\n/, export($job) ], [ ('batch_cancelled') x 2 ], 'its lines say so');
is($server->safe_psql("SELECT infer.retry_job($job) >= 0"), 't', 'and can be taken up again');
is(ended($job), 'completed', 'to the end');
is_deeply([ map { defined $_->{response} } map { $json->decode($_) } split /\n/, export($job) ], [ 1, 1 ], 'all are answered');
$job = $server->safe_psql("SELECT infer.import_requests(" . quoted($mixed) . ", completion_window => '300 milliseconds')");
is(ended($job), 'expired', 'one whose window ends expires');
is_deeply([ map { $_->{error}{code} } map { $json->decode($_) } split /\n/, export($job) ], [ ('batch_expired') x 2 ], 'its lines say so');

# ---- models that go ----

my $later = request('a', '/v1/infer', model => 'going', input => [1]) . "\n" . request('b', '/v1/infer', model => 'plus', input => [1]) . "\n"
  . request('c', '/v1/infer', model => 'other', input => [1]);
for my $model ('going', 'other') { $server->safe_psql("SELECT infer.create_model('$model', data => " . sql_bytes(add_model(5)) . ")"); }
$job = $server->safe_psql("BEGIN; SELECT infer.import_requests(" . quoted($later) . ") AS job \\gset\n"
	  . "SELECT infer.drop_model('going'); SELECT infer.drop_model('other'); SELECT infer.create_model('other', data => " . sql_bytes(add_model(6)) . ") \\g /dev/null\nCOMMIT; SELECT :job");
($job) = $job =~ /(\d+)\s*$/;
is(ended($job), 'completed', 'models that went after the import');
is_deeply([ map { $_->{error} ? "$_->{error}{code} $_->{error}{sqlstate}" : $_->{response}{body} } map { $json->decode($_) } split /\n/, export($job) ],
	[ 'model_not_found 42704', 4, 'server_error 55000' ], 'are errors of their lines; no other model answers under their name');

# ---- a line of many texts, in more than one wave of requests ----

$server->restart('infer.device' => 'cpu', 'infer.payload_limit' => '1MB');
my @texts = map { "text number $_ " . ('of some length ' x ($_ % 60)) } 1 .. 2048;
my @many = (
	request('few', '/v1/embeddings', model => 'bert_mean', input => [ @texts[ 0 .. 9 ] ], truncate => JSON::PP::true, dimensions => 2),
	request('many', '/v1/embeddings', model => 'bert_mean', input => \@texts, truncate => JSON::PP::true, dimensions => 2),
	request('pairs', '/v1/rerank', model => 'bert_cross', query => 'text', documents => [ @texts[ 0 .. 999 ] ], truncate => JSON::PP::true),
	request('after', '/v1/embeddings', model => 'bert_mean', input => 'a', dimensions => 2));
$job = submit_file('many.jsonl', join "\n", @many);
is(ended($job), 'completed', 'a line of thousands of texts');
$of = responses(export($job));
is(join(' ', map { $_->{index} } @{ body('many')->{data} }), join(' ', 0 .. 2047), 'has all of them, in order');
my $table = join ',', map { '(' . $_ . ',' . quoted($texts[$_]) . ')' } 0 .. 2047;
is_deeply([ map { $_->{embedding} } @{ body('many')->{data} } ],
	said("array_agg(infer.embed('bert_mean', body, '{\"truncate\": true, \"dimensions\": 2}') ORDER BY i)) FROM (VALUES $table) AS t (i, body"), 'each its own');
is(scalar @{ body('pairs')->{results} }, 1000, 'and so of documents');
is_deeply(embedding('after', 0), said("infer.embed('bert_mean', 'a', '{\"dimensions\": 2}')"), 'the next line is run as well');

# ---- what is killed ----

my $count = 12000;
my $big = join "\n", map { request("r-$_", '/v1/embeddings', model => 'bert_mean', input => [ "text $_", "another $_" ], dimensions => 4) } 1 .. $count;
$server->restart('infer.payload_limit' => '64MB');
my $undisturbed = submit_file('big.jsonl', $big);
is(ended($undisturbed), 'completed', 'a file of many lines');
my $expected = without_job(export($undisturbed));

# In shards.
my $big_file = $server->write_file('sharded.jsonl', $big);
my $sharded = $server->safe_psql("SET client_min_messages = error; SELECT infer.submit_job_file('$big_file', shards => 3)");
is(ended($sharded), 'completed', 'the same in shards');
is(without_job(export($sharded)), $expected, 'with the same responses');
is($server->safe_psql("SELECT count(*), bool_and(done > 0) FROM infer.job_shard WHERE job = $sharded"), '3|t', 'of which each has done some');
is_deeply(said("infer.job_manifest($sharded) -> 'digests'"), said("infer.job_manifest($undisturbed) -> 'digests'"), 'and the same digests');
is($server->psql_sqlstate("SELECT infer.import_requests('{}', shards => 0)"), '22023', 'a number of shards that is none');
is(scalar(() = $expected =~ /"status_code":200/g), $count, 'each has its response');
$server->restart('infer.device' => 'null:delay=100', 'infer.batch_tokens' => 1024);
$job = submit_file('big.jsonl', $big);

# Waits until the job has got on, then strikes.
sub strike
{
	my ($what, $strike) = @_;
	my $done = $server->safe_psql("SELECT done FROM infer.jobs WHERE job = $job");

	ok($server->poll_query_until("SELECT done > $done AND done < $count FROM infer.jobs WHERE job = $job"), "it gets on before $what");
	$strike->();
	return;
}

strike('the engine is killed', sub { $server->wait_for_new_engine($server->kill_engine('KILL')) });
strike('its runner is terminated', sub { $server->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'infer job $job'") });
strike('the server is stopped', sub { $server->restart });
strike('the server is killed', sub { $server->stop('immediate'); $server->start_again });
is(ended($job), 'completed', 'it ends all the same');
is($server->safe_psql("SELECT done, failed, total FROM infer.jobs WHERE job = $job"), "$count|0|$count", 'each line is counted once');
ok(without_job(export($job)) eq $expected, 'with the same responses');
is_deeply(said("infer.job_manifest($job) -> 'digests'"), said("infer.job_manifest($undisturbed) -> 'digests'"), 'and digests');
is($server->safe_psql("SELECT infer.drop_job($undisturbed)"), '', 'a job that is dropped');
is($server->safe_psql("SELECT count(*) FROM infer.job_request WHERE job = $undisturbed"), '0', 'leaves no lines');

# ---- dump and restore ----

my $dump = $server->dir . '.dump';
{
	my %environment = $server->environment;

	local @ENV{ keys %environment } = values %environment;

	IPC::Run::run([ $server->program('pg_dump'), '-Fc', '-f', $dump, 'infer' ]) or die 'pg_dump failed';
	$server->safe_psql('CREATE DATABASE restored');
	IPC::Run::run([ $server->program('pg_restore'), '-d', 'restored', $dump ]) or die 'pg_restore failed';
	unlink $dump;
}
ok(export($job, database => 'restored') eq export($job), 'a restored database has the responses');

# ---- encodings ----

$server->restart('infer.device' => 'cpu');
for my $encoding ('LATIN1', 'SQL_ASCII')
{
	my %in = (database => lc $encoding);

	$server->safe_psql("CREATE DATABASE " . lc($encoding) . " ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
	$server->safe_psql('CREATE EXTENSION infer', %in);
	make_models(%in);
	$job = submit_file('latin.jsonl', request('caf' . chr(233), '/v1/rerank', model => 'bert_cross', query => 'a', documents => [ 'caf' . chr(233) ], return_documents => JSON::PP::true)
		  . "\n" . request(chr(0x20ac), '/v1/embeddings', model => 'bert_mean', input => 'a'), %in);
	is(ended($job, %in), 'completed', "a file in UTF-8, a database in $encoding");
	my @lines = map { $json->decode($_) } split /\n/, $server->safe_psql("SET client_encoding = 'UTF8'; SELECT line FROM infer.export_results($job)", %in);

	is($lines[0]{response}{body}{results}[0]{document}{text}, 'caf' . chr(233), 'texts come back as they were');
	is($lines[0]{custom_id}, 'caf' . chr(233), 'and custom_ids');
	is($lines[1]{error} ? $lines[1]{error}{sqlstate} : 'none', $encoding eq 'LATIN1' ? '22P05' : 'none', 'what the encoding has not is its line\'s error');
}

done_testing();
