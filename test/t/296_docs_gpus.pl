# Each message about GPUs that docs/operations.md explains is one that the code has, and each that the code has for
# a device that cannot be used is explained.
use strict;
use warnings;
use FindBin;
use Test::More;

my $top = "$FindBin::RealBin/../..";

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!";
	local $/;
	return <$handle>;
}

my $sources = join "\n", map { slurp($_) } "$top/src/engine/device.c", "$top/cuda/device.cu", "$top/cuda/products/library.cu",
	"$top/src/extension/supervisor/gpu.c";
my $page = slurp("$top/docs/operations.md");
my ($chapter) = $page =~ /^## GPUs$(.*?)^## /ms;
my ($table) = $chapter =~ /^\| `detail` \|[^\n]*\n\|[-|]*\n(.*?)\n\n/ms;
my @explained = map { (split /\s*\|\s*/)[1] } split /\n/, $table;

# ---- from the page to the code ----

cmp_ok(scalar @explained, '>', 10, 'messages are explained');
for my $message (@explained)
{
	my @missing = grep { index($sources, $_) < 0 } grep { length } map { s/^[\s,]+|[\s,]+$//gr } split /…/, $message;

	is("@missing", '', "\"$message\" is a message of the code");
}

# ---- and back: what makes a device one that cannot be had ----

for my $message ($sources =~ /status_set\(status, INFER_ERROR_(?:UNSUPPORTED|VERSION), "((?:[^"\\]|\\.)+)"/g)
{
	next if $message =~ /^unknown device/;		# of the setting, not of a GPU

	my $words = $message =~ s/\\"|:.*|%\S+//gr;
	my @found = grep {
		my @parts = grep { length } map { s/^[\s,]+|[\s,]+$//gr } split /…/;
		my $at = 0;

		for my $part (@parts)
		{
			$at = index($message, $part, $at);
			last if $at < 0;
		}
		$at >= 0;
	} @explained;
	ok(@found > 0 || $message =~ /^GPU %d cannot be asked/, "\"$words\" is explained");
}
done_testing();
