# docs/models.md lists exactly the operators that the engine's tables claim.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::RealBin/../..";

sub slurp { my ($file) = @_; open my $f, '<', $file or die "$file: $!"; local $/; return <$f>; }

my %claimed;
for my $file (glob "$top/src/engine/graph/ops/*.c")
{
	my $text = slurp($file);

	$claimed{$1} = $2 while $text =~ /\{(?:"[^"]*"|ONNX_DOMAIN_ML)\s*,\s*"(\w+)"\s*,\s*(\d+)\s*,\s*\d+/g;
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
is(join(' ', grep { exists $listed{$_} && $listed{$_} != ($claimed{$_} > 6 ? $claimed{$_} : 0) } sort keys %claimed), '',
	'with its first operator set');

done_testing();
