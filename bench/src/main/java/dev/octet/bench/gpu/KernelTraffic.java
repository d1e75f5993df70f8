package dev.octet.bench.gpu;

import dev.octet.bench.gpu.KernelSignature.Parameter;
import dev.octet.bench.gpu.RecordedWork.Kernel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * What kernels read and write, by their sources: for each, how many elements behind which of its pointers. An absent pointer is not counted, nor is one that
 * is not named here: it has few elements.
 */
final class KernelTraffic {
    /**
     * A line: a pattern of names, then pointers and elements of each. Names in formulas are the launch's arguments, 1 or 0 for pointers that are there or absent,
     * numbers among the macros, and {@code blocks}, {@code threads} and {@code grid_y} of the grid. {@code bytes} is no pointer: bytes as they are;
     * {@code micros}: what the kernel waits for itself, whatever it moves, as measured on an H200.
     */
    private static final String TABLE = """
        cast_forward | x y: count
        casts_forward | bytes: 6 * 16384 * blocks
        casts_transpose_f32_.* | bytes: 6 * 64 * 128 * blocks
        cast_backward | dy: count; dx: count * (1 + add)
        accumulate_forward | a x y: count
        gelu_forward_.* | x y: n
        gelu_backward_.* | x dy dx: n
        unary_forward_.* | x y: n
        unary_backward_.* | dy saved dx: n
        binary_forward_(f32|bf16|f16) | a b y: n
        binary_backward_(f32|bf16|f16) | g a b da db: n
        binary_spread_.* | a y: n
        binary_fold | bytes: 4 * elements * repetitions
        binary_join | bytes: 4 * elements * (splits + 1); micros: 25
        norm_forward | x y: rows * size; means deviations: rows
        norm_forward_transposed | first second y codes: rows * size; x: rows * size * second; means deviations: rows; transposed: size * leading
        norm_forward_fused | first second y codes: rows * size; x: rows * size * second; means deviations: rows
        norm_backward(_fused)? | x dy residual dx narrow: rows * size; means deviations: rows; dw_pieces db_pieces: blocks * size
        norm_backward_transposed | x dy residual dx narrow codes: rows * size; transposed: size * leading; means deviations: rows; dw_pieces db_pieces: rows / each * size; \
            sums: rows / 64 * size
        norm_(weights|biases) | pieces: count * size; micros: 4
        column_sums_.* | x: rows * n; parts: grid_y * n
        column_joins | bytes: 4 * 32 * splits * blocks; micros: 7
        cast_amax_.* | x codes: n
        cast_transpose_.* | x: rows * cols; codes: rows * pitch; transposed: cols * leading; sums: grid_y * cols
        gelu_transpose_.* | x y: rows * cols; codes: rows * pitch; transposed: cols * leading
        gelu_gradient_transpose_.* | x dy dx: rows * cols; codes: rows * pitch; transposed: cols * leading; sums: grid_y * cols
        score_gradient_transpose_.* | x dx: rows * cols; codes: rows * pitch; transposed: cols * leading
        cross_entropy_slopes | labels slopes targets: positions
        gated_forward_.* | x u y: n
        gated_backward_.* | x u dy dx du: n
        gated_amax_.* | x u y codes: n
        gated_transpose_.* | x u y: rows * cols; codes: rows * pitch; transposed: cols * leading
        gated_gradient_transpose_.* | x u dy dx du: rows * cols; codes: rows * pitch; transposed: cols * leading; sums: grid_y * cols; \
            codes_u: rows * pitch_u; transposed_u: cols * leading_u; sums_u: grid_y * cols
        product_transpose_.* | a b y: rows * cols; codes: rows * pitch; transposed: cols * leading
        whole_amax_.* | x: n
        (block|column)_amax_.* | x: rows * cols
        encode_blocks_.* | x codes: rows * cols
        cast_(runs|squares)_.* | x codes: rows * cols; transposed: cols * leading; sums: grid_y * cols
        encode_transpose_.* | x codes: rows * cols; transposed: cols * leading
        block_scales | amax quant_scales scales: blocks
        arrange_scales | bytes: 8 * rows * cols
        transpose_codes | codes: rows * cols; transposed: cols * leading
        round_rows | bytes: 6 * 1024 * blocks
        decode_rows_.* | codes: rows * cols; x: to_rows * leading
        finish_sums_.* | sums: rows * n; d: rows * n * (1 + accumulate)
        copy_rows | x: rows * columns; y: to_rows * to_columns
        box_copy_16 | bytes: 32 * n
        transpose_tiles_16 | bytes: 4 * 4096 * blocks
        attention_bias | bias: batch * keys
        attention_hide | log_sums: batch * heads * queries
        attention_sums | log_sums sums: rows
        attention_dots | y dy: batch * heads * queries * value_size; dots: batch * heads * queries
        rotary_turn | x y: rows * size
        cross_entropy_forward | x: positions * classes
        cross_entropy_backward | x dx: positions * classes
        loss_mean | losses weights: count; micros: 8
        gather_forward | bytes: 2 * UNIT * count * units
        gather_keys | keys positions: count
        gather_count | keys: count; micros: 4
        gather_starts | counts: n; micros: 6
        gather_place | keys positions sorted_keys sorted_positions: count; micros: count * 0.003
        gather_add_wide | dy: count * inner; dx: count * inner * (1 + add)
        gather_join_wide | dx: chunks * inner; micros: 8
        conv_taps_2 | x taps: n
        conv_turn_2 | bytes: 2 * 2 * 4 * 256 * blocks
        conv_fill_.* | y: n
        reduce_warps_.* | micros: 150
        reduce_(threads|splits)_.* | micros: 15
        square_sum_parts_f32 | bytes: 4 * 16384 * blocks
        adam_f32 | bytes: 28 * 16384 * blocks
        (square_sum_join|gradient_check|loss_check|amax_update) | micros: 8
        flash_(forward|queries|keys) | micros: 0
        """;

    private record Row(Pattern names, Map<String, String> elements) {}

    private static final List<Row> ROWS = TABLE.lines().map(KernelTraffic::row).toList();

    private KernelTraffic() {}

    private static Row row(String line) {
        String[] halves = line.split(" \\| ", 2);
        Map<String, String> elements = new HashMap<>();
        for (String part : halves[1].split(";", -1)) {
            String[] sides = part.split(":", 2);
            for (String pointer : sides[0].strip().split(" ", -1)) {
                elements.put(pointer, sides[1]);
            }
        }
        return new Row(Pattern.compile(halves[0].strip()), elements);
    }

    /**
     * @param bytes read and written
     * @param micros that the kernel takes besides
     */
    record Traffic(double bytes, double micros) {}

    /**
     * Of a launch; empty for kernels that the table does not have.
     *
     * @throws IllegalStateException when a row of the table does not fit the kernel's parameters
     */
    static Optional<Traffic> of(Kernel kernel) {
        return ROWS.stream()
                .filter(r -> r.names().matcher(kernel.name()).matches())
                .findFirst()
                .map(r -> traffic(kernel, r));
    }

    private static Traffic traffic(Kernel kernel, Row row) {
        Map<String, Double> values = new HashMap<>();
        values.put("blocks", (double) kernel.blocks());
        values.put("threads", (double) kernel.grid().threads());
        values.put("grid_y", (double) kernel.grid().y());
        kernel.source().defines().forEach((name, value) -> {
            if (value.matches("\\d+")) {
                values.put(name, Double.valueOf(value));
            }
        });
        List<Parameter> parameters = kernel.parameters();
        List<String> left = new ArrayList<>(row.elements().keySet());
        for (int i = 0; i < parameters.size(); i++) {
            double value = ((Number) kernel.arguments().get(i)).doubleValue();
            values.put(parameters.get(i).name(), parameters.get(i).pointer() && value != 0 ? 1 : value);
        }
        double bytes = 0;
        for (Parameter p : parameters) {
            String elements = row.elements().get(p.name());
            if (elements != null && left.remove(p.name()) && values.getOrDefault(p.name(), 0.0) != 0) {
                if (!p.pointer() || p.width() == 0) {
                    throw new IllegalStateException(p + " of " + kernel.name() + " is no pointer of a known type");
                }
                bytes += p.width() * Formula.value(elements, values);
            }
        }
        String more = row.elements().get("bytes");
        if (more != null && left.remove("bytes")) {
            bytes += Formula.value(more, values);
        }
        String waits = row.elements().get("micros");
        double micros = waits != null && left.remove("micros") ? Formula.value(waits, values) : 0;
        // a row may be of several kernels, and parameters differ: at least one must have been there
        if (left.size() == row.elements().size()) {
            throw new IllegalStateException(kernel.name() + " has none of the pointers " + left);
        }
        return new Traffic(bytes, micros);
    }
}
