# The examples of docs/models.md run as they stand there: Python exports, SQL creates and calls, and over the whole
# table the model says what its library says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use InferServer;
use Test::More;

# What test/conformance/docs.py wrote there, which script/test runs first.
my $folder = $ENV{INFER_DOCS} // '';
plan skip_all => 'there is no Python environment: run script/setup' if !-e "$folder/examples";

my $server = InferServer->start;
my ($table) = slurp("$InferServer::top/docs/models.md") =~ /```sql\n(CREATE TABLE customers .*?)```/s;
$server->safe_psql($table);
$server->safe_psql("\\copy customers FROM '$folder/customers.csv' (FORMAT csv, HEADER)");

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!";
	local $/;
	return <$handle>;
}

# The oracle's answers as a table of their own: label and probabilities, or a number.
sub load_expected
{
	my ($name) = @_;
	my ($header) = slurp("$folder/$name/expected.csv") =~ /^(.*)\n/;
	my @columns = map { qq("$_") . ($_ eq 'id' ? ' int' : $_ eq 'label' ? ' text' : ' float8') } split /,/, $header;

	$server->safe_psql("CREATE TABLE expected_$name (" . join(', ', @columns) . ");
\\copy expected_$name FROM '$folder/$name/expected.csv' (FORMAT csv, HEADER)
");
	# Those rows that the example has, by themselves: a join may call the model before it looks.
	$server->safe_psql("CREATE TABLE customers_$name AS SELECT c.* FROM customers c JOIN expected_$name USING (id)");
	return $server->safe_psql("SELECT count(*) FROM customers_$name");
}

my $ran = 0;
for (split /\n/, slurp("$folder/examples"))
{
	my ($name, $outcome, $what) = split / /, $_, 3;

	if ($outcome ne 'ok')
	{
	  SKIP: { skip "$name: $what is not installed", 1 if $outcome eq 'skip'; }
		fail("$name: $what") if $outcome ne 'skip';
		next;
	}
	$ran++;
	my $answers = $server->safe_psql(slurp("$folder/$name/statements.sql"));
	my $rows = load_expected($name);

	cmp_ok($rows, '>', 250, "$name is about the table");
	cmp_ok($answers =~ tr/\n//, '>', 50, "$name: the statements answer");
	if ($what eq 'label')
	{
		is($server->safe_psql("SELECT count(*) FROM customers_$name c JOIN expected_$name e USING (id)
			WHERE infer.classify('$name', c) = e.label"), $rows, "$name: labels");
		is($server->safe_psql("SELECT count(*) FROM customers_$name c JOIN expected_$name e USING (id)
			WHERE NOT EXISTS (SELECT FROM jsonb_each_text(to_jsonb(e) - 'id' - 'label') w
				WHERE abs(infer.probability('$name', w.key, c) - w.value::float8) <= 2e-6 IS NOT TRUE)"),
			$rows, "$name: probabilities");
	}
	else
	{
		is($server->safe_psql("SELECT count(*) FROM customers_$name c JOIN expected_$name e USING (id)
			WHERE abs(infer.predict('$name', c) - e.number) <= 1e-5 + 2e-6 * abs(e.number)"), $rows, "$name: numbers");
	}
}
cmp_ok($ran, '>', 0, 'some example ran');

$server->stop;
done_testing;
