# The examples give what onnxruntime says about each of their rows, in every way of calling.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Cwd;
use InferServer;
use Test::More;

my $server = InferServer->start;
my $examples = "$InferServer::top/examples";
my $here = getcwd;

# Load an example as its README says, and the oracle's answers beside it.
sub load
{
	my ($folder, $columns) = @_;

	chdir "$examples/$folder" or die "$examples/$folder: $!";
	$server->safe_psql("\\i load.sql");
	$server->safe_psql("CREATE TABLE expected_$folder ($columns);
\\copy expected_$folder FROM 'expected.csv' (FORMAT csv, HEADER)
");
	chdir $here;
	return;
}

# No row of the table may have another label, or a probability that is off by more than the tolerance.
sub compare_classes
{
	my ($folder, $table, $model, $input, $tolerance) = @_;

	$tolerance //= 1e-5;
	load($folder, 'id int, label text, probabilities jsonb');
	my $rows = $server->safe_psql("SELECT count(*) FROM $table");
	cmp_ok($rows, '>', 100, "$table is a real table");
	is($server->safe_psql("SELECT count(*) FROM $table t JOIN expected_$folder e USING (id)
		WHERE e.label = infer.classify('$model', $input)"), $rows, "$folder: labels");
	is($server->safe_psql("SELECT count(*) FROM (SELECT id, e.probabilities AS wanted,
			infer.probabilities('$model', $input) AS got FROM $table t JOIN expected_$folder e USING (id)) x
		WHERE (SELECT count(*) FROM jsonb_object_keys(got)) = (SELECT count(*) FROM jsonb_object_keys(wanted))
			AND NOT EXISTS (SELECT FROM jsonb_each(wanted) w
				WHERE abs((got ->> w.key)::float8 - (w.value)::float8) > $tolerance
					OR got ->> w.key IS NULL)"), $rows, "$folder: probabilities");
	return;
}

compare_classes('breast_cancer', 'tumours', 'tumour', 't');
compare_classes('digits', 'digits', 'digit', 't.pixels');
compare_classes('wine', 'wines', 'wine', 't');
compare_classes('iris', 'flowers', 'iris', 't', 1e-6);
compare_classes('progression', 'cohort', 'progression', 't', 1e-6);
cmp_ok($server->safe_psql("SELECT count(*) FROM cohort WHERE num_nulls(age, s1, s2, s3, s4, s5, s6) > 0"),
	'>', 0, 'progression: some numbers are missing');
is($server->safe_psql("SELECT count(*) FROM cohort c JOIN expected_progression e USING (id)
	WHERE (infer.probability('progression', 'yes', c) > 0.8) = ((e.probabilities ->> 'yes')::float8 > 0.8)"),
	442, 'progression: a class as a condition');
cmp_ok($server->safe_psql("SELECT count(*) FROM wines WHERE num_nulls(alcohol, malic_acid, ash, proline) > 0"),
	'>', 0, 'wine: some values are missing');

# A class of its own, and the whole answer.
is($server->safe_psql("SELECT count(*) FROM tumours t JOIN expected_breast_cancer e USING (id)
	WHERE abs(infer.probability('tumour', 'malignant', t) - (e.probabilities ->> 'malignant')::float8) <= 1e-5"),
	569, 'one class');
is($server->safe_psql("SELECT count(*) FROM tumours t JOIN expected_breast_cancer e USING (id)
	WHERE infer('tumour', t) ->> 'label' = e.label AND infer('tumour', t) -> 'probabilities' ? 'benign'"),
	569, 'the whole answer');

# A number, by four ways of giving the features.
load('diabetes', 'id int, prediction float8');
my %ways = (
	'features one by one' => 'p.age, p.sex, p.bmi, p.bp, p.s1, p.s2, p.s3, p.s4, p.s5, p.s6',
	'an array' => 'ARRAY[p.age, p.sex, p.bmi, p.bp, p.s1, p.s2, p.s3, p.s4, p.s5, p.s6]',
	'an object' => q{jsonb_build_object('s6', p.s6, 's5', p.s5, 's4', p.s4, 's3', p.s3, 's2', p.s2, 's1', p.s1,
		'bp', p.bp, 'bmi', p.bmi, 'sex', p.sex, 'age', p.age)},
	'a row' => 'p');
for my $way (sort keys %ways)
{
	is($server->safe_psql("SELECT count(*) FROM patients p JOIN expected_diabetes e USING (id)
		WHERE abs(infer.predict('diabetes', $ways{$way}) - e.prediction) <= 1e-5 * abs(e.prediction)"),
		442, "diabetes by $way");
}

# Bulk.
$server->safe_psql("UPDATE tumours SET label = infer.classify('tumour', tumours)");
is($server->safe_psql("SELECT count(*) FROM tumours t JOIN expected_breast_cancer e USING (id) WHERE t.label = e.label"),
	569, 'an UPDATE of the whole table');

$server->stop;
done_testing;
