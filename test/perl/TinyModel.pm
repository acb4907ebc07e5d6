# TinyModel.pm
#	  ONNX models of a few bytes, made on the spot: what a test of the catalogue needs is that
#	  two versions differ, and that it can tell which one answered.
#
#	add_model(3)				y = x + 3, x and y of one float: infer.predict(m, 1) is 4
#	add_model(3, 100000)		the same, made larger by that many bytes of text nobody reads
#	large_add_model(3, 1000)	the same for 1000 floats, each with an addend of its own: 4000 bytes of weights
#	wide_add_model(3, 'n')		the same for (N, n): how wide a row is, the option dims must say
#	external_add_model('w.bin')	the same, with the addend's bytes in another file
#	product_model(3)			y = (x, 3x, 0, ...) times a matrix of 512 x 512, 1 MB: large enough to be kept packed
#	sum_model(3)				y = the sum of a row of 3
#	sql_bytes($bytes)			as a bytea literal
#
# The format is protobuf as in onnx.proto (https://github.com/onnx/onnx); numbers in comments
# are its field numbers.
package TinyModel;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(add_model large_add_model wide_add_model external_add_model product_model sum_model sql_bytes);

sub _varint
{
	my ($number) = @_;
	my $bytes = '';

	while ($number > 127)
	{
		$bytes .= chr(128 | ($number & 127));
		$number >>= 7;
	}
	return $bytes . chr($number);
}

sub _number { my ($field, $number) = @_; return _varint($field << 3) . _varint($number); }
sub _bytes { my ($field, $bytes) = @_; return _varint($field << 3 | 2) . _varint(length $bytes) . $bytes; }

# ValueInfoProto: a tensor of floats (N, elements), or (N, a dimension with a name)
sub _value
{
	my ($name, $dimension, $elements) = @_;
	my $width = $dimension ? _bytes(2, $dimension) : _number(1, $elements || 1);	# dim_param, dim_value
	my $shape = _bytes(1, _bytes(2, 'N')) . _bytes(1, $width);
	my $tensor = _number(1, 1) . _bytes(2, $shape);						# elem_type FLOAT, shape

	return _bytes(1, $name) . _bytes(2, _bytes(1, $tensor));			# name, type
}

sub _model
{
	my ($constant_data, $dimension, $elements) = @_;
	my $node = _bytes(1, 'x') . _bytes(1, 'c') . _bytes(2, 'y') . _bytes(4, 'Add');	# inputs, output, op_type
	my $constant = _number(1, $elements || 1) . _number(2, 1) . _bytes(8, 'c') . $constant_data;	# dims, data_type, name
	my $graph = _bytes(1, $node) . _bytes(2, 'tiny') . _bytes(5, $constant)			# node, name, initializer
	  . _bytes(11, _value('x', $dimension, $elements)) . _bytes(12, _value('y', $dimension, $elements));	# input, output

	return _number(1, 8) . _bytes(7, $graph) . _bytes(8, _number(2, 13));			# ir_version, graph, opset_import
}

sub add_model
{
	my ($addend, $padding) = @_;
	my $model = _model(_bytes(9, pack('f<', $addend)));								# raw_data

	$model .= _bytes(6, 'x' x $padding) if $padding;								# doc_string
	return $model;
}

sub large_add_model
{
	my ($addend, $elements) = @_;

	return _model(_bytes(9, pack('f<', $addend) x $elements), undef, $elements);
}

sub wide_add_model
{
	my ($addend, $dimension) = @_;

	return _model(_bytes(9, pack('f<', $addend)), $dimension);
}

sub external_add_model
{
	my ($location) = @_;

	return _model(_bytes(13, _bytes(1, 'location') . _bytes(2, $location)) . _number(14, 1));	# external_data, data_location
}

# x (N, 1) times A (1, 512), times B (512, 512), times C (512, 1): A picks the first two, B has
# 1 on its diagonal, C adds all up; so y = x + 3x for product_model(3).
sub product_model
{
	my ($factor) = @_;
	my $side = 512;
	my %data = (
		A => [ 1, $side, pack('f<*', 1, $factor, (0) x ($side - 2)) ],
		B => [ $side, $side, join '', map { pack('f<*', (0) x $_, 1, (0) x ($side - 1 - $_)) } 0 .. $side - 1 ],
		C => [ $side, 1, pack('f<*', (1) x $side) ]);
	my $graph = '';

	for (['x', 'A', 'a'], ['a', 'B', 'b'], ['b', 'C', 'y'])
	{
		$graph .= _bytes(1, _bytes(1, $_->[0]) . _bytes(1, $_->[1]) . _bytes(2, $_->[2]) . _bytes(4, 'MatMul'));
	}
	$graph .= _bytes(2, 'product');
	for my $name (sort keys %data)
	{
		my ($rows, $columns, $bytes) = @{ $data{$name} };

		$graph .= _bytes(5, _number(1, $rows) . _number(1, $columns) . _number(2, 1) . _bytes(8, $name) . _bytes(9, $bytes));
	}
	$graph .= _bytes(11, _value('x')) . _bytes(12, _value('y'));
	return _number(1, 8) . _bytes(7, $graph) . _bytes(8, _number(2, 13));
}

# x (N, width) times a column of ones
sub sum_model
{
	my ($width) = @_;
	my $ones = _number(1, $width) . _number(1, 1) . _number(2, 1) . _bytes(8, 'c') . _bytes(9, pack('f<*', (1) x $width));
	my $graph = _bytes(1, _bytes(1, 'x') . _bytes(1, 'c') . _bytes(2, 'y') . _bytes(4, 'MatMul')) . _bytes(2, 'sum') . _bytes(5, $ones)
	  . _bytes(11, _value('x', undef, $width)) . _bytes(12, _value('y'));

	return _number(1, 8) . _bytes(7, $graph) . _bytes(8, _number(2, 13));
}

sub sql_bytes
{
	my ($bytes) = @_;

	return "'\\x" . unpack('H*', $bytes) . "'::bytea";
}

1;
