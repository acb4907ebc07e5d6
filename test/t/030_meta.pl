# META.json is what PGXN wants (pgxn.org/meta/spec.txt), and names files and the version that there are.
use strict;
use warnings;

use FindBin;
use JSON::PP;
use Test::More;

my $top = "$FindBin::RealBin/../..";

sub slurp { my ($file) = @_; open my $f, '<', $file or die "$file: $!"; local $/; return <$f>; }

my $meta = decode_json(slurp("$top/META.json"));
my ($version) = slurp("$top/infer.control") =~ /^default_version = '(\d+\.\d+\.\d+)'$/m;
my $provided = $meta->{provides}{infer};

ok($version, 'infer.control has a version of three numbers');
is(join(' ', grep { !exists $meta->{$_} } qw(abstract license maintainer meta-spec name provides version)), '',
	'META.json has all that must be there');
is($meta->{'meta-spec'}{version}, '1.0.0', 'and says by which rules');
is($meta->{license}, 'postgresql', 'a licence that they know');
like($meta->{release_status}, qr/^(stable|testing|unstable)$/, 'a status that they know');
is($meta->{version}, $version, 'the version is that of infer.control');
is($provided->{version}, $version, 'so is that of the extension');
ok(-f "$top/$provided->{$_}", "its $_ is there") for qw(file docfile);
like(slurp("$top/CHANGELOG.md"), qr/^## \Q$version\E\b/m, 'CHANGELOG.md has the version');

done_testing();
