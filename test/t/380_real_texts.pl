# A real model and a classifier made of it, called as documentation and examples say: the statements of docs/models.md about
# searching run as they stand there, and examples/sections says of each of its rows what transformers says.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use Cwd;
use InferServer;
use Test::More;

# A folder that the server can read, or undef where it cannot be fetched.
sub folder_of
{
	my ($name, $server) = @_;
	chomp(my $folder = `'$InferServer::top/script/fetch-models' --folder '$name'`);
	my $readable = dirname_of($server) . "/$name";

	return undef if $? != 0;
	system('cp', '-rL', $folder, $readable) == 0 && system('chmod', '-R', 'a+rX', $readable) == 0 or die "$folder cannot be copied";
	return $readable;
}

sub dirname_of { return $_[0]->dir =~ s{/[^/]+$}{}r }

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!";
	local $/;
	return <$handle>;
}

my $server = InferServer->start;
my $minilm = folder_of('minilm', $server);
my $sections = $minilm && folder_of('sections', $server);
plan skip_all => 'minilm and sections: all-MiniLM-L6-v2 could not be fetched' unless $sections;

# ---- the example ----

my $here = getcwd;
chdir "$InferServer::top/examples/sections" or die $!;
$server->safe_psql('\i load.sql', variables => { model => $sections });
$server->safe_psql("CREATE TABLE expected (package text PRIMARY KEY, label text, probabilities jsonb);
\\copy expected FROM 'expected.csv' (FORMAT csv, HEADER)
");
chdir $here;
is($server->safe_psql('SELECT count(*), count(DISTINCT section) FROM packages JOIN expected USING (package)'), '400|8', '400 packages of eight sections');

# As it is loaded it has the precision that is fastest here.
for my $precision ('', 'f32', 'bf16')
{
	my $model = 'sections';
	$model .= '@' . $server->safe_psql("SELECT infer.create_model('sections', '$sections', '{\"precision\": \"$precision\"}')") if $precision;
	my ($same, $right, $furthest) = split /\|/, $server->safe_psql(<<SQL);
SELECT count(*) FILTER (WHERE said = label), count(*) FILTER (WHERE said = section),
	max((SELECT max(abs((p ->> key)::float8 - value::float8)) FROM jsonb_each_text(probabilities)))
FROM (SELECT *, infer.classify('$model', description) AS said, infer.probabilities('$model', description) AS p FROM packages JOIN expected USING (package)) s
SQL
	note("precision " . ($precision || 'by default') . ": $same equal labels, $right right, probabilities within $furthest");
	if ($precision eq 'f32')
	{
		is($same, 400, 'sections in f32: the labels that transformers gives');
		cmp_ok($furthest, '<', 1e-4, 'and its probabilities');
		is($right, 367, '367 of them are right');
	}
	else
	{
		cmp_ok($same, '>=', 395, 'sections ' . ($precision ? "in $precision" : 'as it is loaded') . ': the labels that transformers gives, but for a few');
		cmp_ok($right, '>=', 362, 'and nearly as many are right');
	}
}
my $by_name = $server->safe_psql("SELECT infer.create_model('sections', '$sections', '{\"features\": [\"description\"]}')");
is($server->safe_psql("SELECT count(*), bool_and(infer.classify('sections\@$by_name', p) = infer.classify('sections', description)) FROM packages p WHERE package < 'c'"),
	$server->safe_psql("SELECT count(*), true FROM packages WHERE package < 'c'"), 'a row, whose column the option names');
my $readme = slurp("$InferServer::top/examples/README.md");
my ($call) = $readme =~ /^    psql -c "(SELECT package, infer\.classify[^"]+)"$/m;
like($server->safe_psql($call), qr/\A(?:\S+\|\w+\|\w+\n?){5}\z/, "the README's call");

# ---- searching, as docs/models.md tells it ----

my ($chapter) = slurp("$InferServer::top/docs/models.md") =~ /^### Semantic search\n(.*?)^### /ms;
my @snippets = $chapter =~ /^```sql\n(.*?)^```$/msg;
is(scalar @snippets, 4, 'four snippets');
for my $snippet (@snippets)
{
	my ($title) = $snippet =~ /-- (.+)$/m;

	$snippet =~ s{/srv/models/all-MiniLM-L6-v2}{$minilm};
	$snippet =~ s{/srv/models/e5-small-v2}{$InferServer::top/test/fixtures/text/bert_e5};
  SKIP:
	{
		skip 'an index: this PostgreSQL has no pgvector', 1
		  if $snippet =~ /CREATE EXTENSION vector/ && !$server->safe_psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");
		my ($status, $out, $err) = $server->psql($snippet);
		is($err, '', "a snippet runs: " . substr $snippet, 0, 60);
		is(($out =~ /([^\n]*)\z/)[0] =~ s/\|.*//r, $title, "and answers $title") if defined $title;
	}
}

# ---- statements of users ----

is($server->safe_psql("SELECT infer.token_count('minilm', 'Größe'), infer.tokenize('minilm', 'Größe')"), '5|{101,24665,2080,17499,102}', 'tokens of a word');
$server->safe_psql(<<'SQL');
ALTER TABLE packages ADD COLUMN embedding real[];
UPDATE packages SET embedding = infer.embed('minilm', description, '{"truncate": true}');
SQL
my %answers = ('who owns the GPU' => 'libmfx-gen1.2', 'spam keeps arriving in my inbox' => 'bsfilter', 'letters of the Arabic script' => 'fonts-hosny-amiri');
for my $question (sort keys %answers)
{
	is($server->safe_psql("SELECT package FROM packages ORDER BY infer.cosine_similarity(embedding, infer.embed('minilm', '$question')) DESC LIMIT 1"),
		$answers{$question}, $question);
}
my ($status, $out, $err) = $server->psql("SELECT infer.embed('minilm', string_agg(description, ' ')) FROM packages");
like($err, qr/ERROR:  22023: the text has \d+ tokens, and the model takes at most 256\n.*sentence_bert_config\.json.*\n.*truncate.*infer\.chunk/s, 'a text that is too long');
is($server->safe_psql(<<'SQL'), 't|t|t', 'its chunks can be embedded');
SELECT count(*) > 40, bool_and(tokens <= 200), bool_and(cardinality(infer.embed('minilm', chunk)) = 384)
FROM (SELECT string_agg(description, ' ') AS text FROM packages) p, infer.chunk('minilm', text, 200, 20)
SQL

$server->stop;
done_testing;
