# What docs/jobs.md and docs/operations.md say about jobs runs as it stands there, from the first statement to the last.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use InferServer;
use Test::More;
use TinyModel;

# What needs a file of the server's, another extension, or a job that has not ended is tested elsewhere.
my $elsewhere = qr{/srv/|\bcron\.|submit_job_file|import_requests|export_results|drop_job|^\\|^LISTEN|^CREATE EXTENSION};

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!";
	local $/;
	return <$handle>;
}

# The statements of a page's indented blocks, each with the comment that follows it.
sub statements
{
	my ($page) = @_;
	my @statements;

	for my $block ($page =~ /(?<=\n\n)((?: {4}.*\n)+)/g)
	{
		next unless $block =~ /^ {4}(SELECT|CREATE|WITH|ALTER|UPDATE)\b/;
		while ($block =~ /\G(.*?(?:;|\\watch \d+)) *(?:-- *([^\n]*))?\n/gs)
		{
			my ($statement, $comment) = ($1, $2);

			$statement =~ s/^\s*--.*\n//mg;				# what the last one printed
			$statement =~ s/ *\\watch \d+$/;/;
			$statement =~ s/^\s+//;
			push @statements, [ $statement, $comment ] if $statement =~ /\S/;
		}
	}
	return @statements;
}

my $server = InferServer->start;

$ENV{PG_ABS_SRCDIR} = "$InferServer::top/test";
for (['bert_classify', 'sentiment'], ['bert_mean', 'minilm'])
{
	my ($folder, $name) = @$_;

	$server->safe_psql("\\set model $folder\n\\set options '{\"truncate\": true}'\n\\i $InferServer::top/test/fixtures/text.psql\n",
		options => [ '-o', '/dev/null' ]);
	$server->safe_psql("SELECT infer.rename_model('$folder', '$name')");
}
$server->safe_psql(q{SELECT infer.create_model('churn', options => '{"features": ["age", "plan_months", "calls"]}', data => } . sql_bytes(sum_model(3)) . ')');
$server->safe_psql(<<'SQL');
CREATE TABLE customers (id bigint PRIMARY KEY, age int, plan_months int, calls int, active bool, score double precision);
INSERT INTO customers SELECT i, i, i % 24, i % 7, i % 3 > 0 FROM generate_series(1, 300) i;
CREATE TABLE docs (id bigint PRIMARY KEY, title text, body text, embedding real[]);
INSERT INTO docs SELECT i, 'title ' || i, 'the body of it ' || i FROM generate_series(1, 20) i;
-- the page's job is 17
SELECT setval('infer.job_id', 16);
SQL

my $submitted = 0;
for (statements(slurp("$InferServer::top/docs/jobs.md")),
	statements(slurp("$InferServer::top/docs/operations.md") =~ /\n## Jobs\n(.*?)\n## /s))
{
	my ($statement, $comment) = @$_;

	next if $statement =~ $elsewhere;
	my ($title) = $statement =~ /(.{1,70})/;
	my ($status, $out, $err) = $server->psql($statement);
	is("$status$err", '0', $title) or diag($statement);
	is($out, $comment, '... and gives that') if defined $comment && $statement =~ /submit_job|wait_job/ && $comment =~ /^(\d+|completed)$/;
	# rows of the one before are there when the next one is submitted
	$server->safe_psql("INSERT INTO reviews SELECT i, 'review ' || i FROM generate_series(1, 50) i") if $statement =~ /^CREATE TABLE reviews/;
	next unless $statement =~ /submit_job/;
	$submitted++;
	$server->safe_psql("SELECT infer.wait_job($out, timeout => '1 minute')");
	is($server->safe_psql("SELECT state, failed FROM infer.jobs WHERE job = $out"), 'completed|0', '... and is done')
	  or diag($server->safe_psql("SELECT last_error FROM infer.jobs WHERE job = $out"));
}
cmp_ok($submitted, '>=', 6, 'jobs were among them');
is($server->safe_psql('SELECT count(*) FROM reviews WHERE label IS NULL'), '0', 'all rows have labels');
is($server->safe_psql('SELECT count(*) FROM scores'), '200', 'and scores');

# ---- the same twice ----

my $again = "SELECT infer.submit_job('churn', 'customers', output => 'score')";
my ($first, $second) = map { my $job = $server->safe_psql($again); $server->safe_psql("SELECT infer.wait_job($job)"); $job } 1 .. 2;
for my $key (qw(query columns model digests numerics_id engines counts versions))
{
	my $difference = "SELECT infer.job_manifest($first) -> '$key', infer.job_manifest($second) -> '$key'";
	my ($one, $two) = split /\|/, $server->safe_psql($difference);

	is($one, $two, "the same job twice has the same $key");
	isnt($one, 'null', '... and it is known');
}
$server->safe_psql("UPDATE customers SET calls = calls + 1 WHERE id = 7");
my $other = $server->safe_psql($again);
$server->safe_psql("SELECT infer.wait_job($other)");
is($server->safe_psql("SELECT count(*) FROM jsonb_each(infer.job_manifest($first) -> 'digests') a JOIN jsonb_each(infer.job_manifest($other) -> 'digests') b USING (key) WHERE a.value = b.value"),
	'0', 'one row that is another changes both digests');
$server->safe_psql("SELECT infer.create_model('churn', options => '{\"features\": [\"calls\", \"age\", \"plan_months\"]}', data => " . sql_bytes(sum_model(3)) . ", path => NULL)");
$server->safe_psql("SELECT infer.activate_model('churn', 2)");
my $newer = $server->safe_psql($again);
$server->safe_psql("SELECT infer.wait_job($newer)");
is($server->safe_psql("SELECT infer.job_manifest($other) #> '{digests,output}' = infer.job_manifest($newer) #> '{digests,output}',
	infer.job_manifest($other) #> '{query,fingerprint}' = infer.job_manifest($newer) #> '{query,fingerprint}'"), 't|f',
	'another version that computes the same gives the same output, and is another query');

done_testing();
