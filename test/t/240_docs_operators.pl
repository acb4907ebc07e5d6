# docs/models.md lists exactly the operators that the engine's tables claim.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::RealBin/../..";

sub slurp { my ($file) = @_; open my $f, '<', $file or die "$file: $!"; local $/; return <$f>; }

# An operator's first operator set is told where it is later than the first that we read: 6 of the main domain, 1 of
# ai.onnx.ml.
my (%claimed, %first);
for my $file (glob "$top/src/engine/graph/ops/*.c $top/src/engine/graph/ops/*/*.c")
{
	my $text = slurp($file);

	while ($text =~ /\{("[^"]*"|ONNX_DOMAIN_ML)\s*,\s*"(\w+)"\s*,\s*(\d+)\s*,\s*\d+/g)
	{
		$claimed{$2} = $3;
		$first{$2} = $1 eq 'ONNX_DOMAIN_ML' ? 1 : 6;
	}
}

my ($section) = slurp("$top/docs/models.md") =~ /\| family \| operators \|\n(.*?)\n\n/s;
my %listed;
for my $row (split /\n/, $section)
{
	my ($operators) = $row =~ /^\| [^|]+ \| ([^|]+) \|$/ or next;

	$listed{$1} = $2 || 0 while $operators =~ /(\w+)(?: \((\d+)\))?(?:,|$)/g;
}

cmp_ok(scalar(keys %claimed), '>', 50, 'the tables were found');
is(join(' ', grep { !exists $listed{$_} } sort keys %claimed), '', 'every operator is listed');
is(join(' ', grep { !exists $claimed{$_} } sort keys %listed), '', 'and nothing else');
is(join(' ', grep { exists $listed{$_} && $listed{$_} != ($claimed{$_} > $first{$_} ? $claimed{$_} : 0) } sort keys %claimed), '',
	'with its first operator set');

done_testing();
