package dev.octet.converter.verify;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.verify.GoodCheckpoint.Kind;
import dev.octet.converter.verify.GoodCheckpoint.Stored;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** One thing is changed in a good checkpoint of each layout, and every element next to the original's shows it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SabotageTest {
    private static final String O = "model.layers.0.self_attn.o_proj";
    private static final String K = "model.layers.0.self_attn.k_proj";
    private static final String V = "model.layers.0.self_attn.v_proj";
    private static final String EXPERT = "model.layers.1.block_sparse_moe.experts.1.w2";

    @TempDir
    Path folder;

    @TempDir
    static Path originalFolder;

    @BeforeAll
    static void writeOriginal() throws IOException {
        GoodCheckpoint.of(Kind.PLAIN).write(originalFolder);
    }

    private interface Change {
        void to(GoodCheckpoint model);
    }

    /** What is done, to which layout, and the rules that may tell; the first of them must be an error unless it says otherwise. */
    record Sabotage(String words, Kind kind, Change change, List<String> rules, Severity severity) {
        @Override
        public String toString() {
            return words + " in " + kind;
        }
    }

    /** What is not quantised lies in every kind as it does in these. */
    static List<Sabotage> valueSabotages() {
        return valueSabotages(EnumSet.of(Kind.PLAIN, Kind.CT_CHANNEL, Kind.FP8_BLOCK, Kind.MODELOPT_NVFP4));
    }

    static List<Sabotage> otherValueSabotages() {
        return valueSabotages(
                EnumSet.complementOf(EnumSet.of(Kind.PLAIN, Kind.CT_CHANNEL, Kind.FP8_BLOCK, Kind.MODELOPT_NVFP4)));
    }

    private static List<Sabotage> valueSabotages(EnumSet<Kind> kinds) {
        List<Sabotage> all = new ArrayList<>();
        for (Kind kind : kinds) {
            for (String name : List.of("lm_head.weight", "model.embed_tokens.weight", "model.norm.weight")) {
                all.add(value(
                        kind,
                        name + " all zero",
                        m -> clear(m, name, 0, m.tensor(name).bytes().capacity())));
                all.add(value(kind, name + " noise", m -> noise(m, name)));
                all.add(value(kind, name + " x2", m -> addToShorts(m, name, 0x80)));
            }
            all.add(value(kind, "one element of a norm +0.5", m -> nudge(m, "model.norm.weight", 17, 0x40)));
            all.add(value(kind, "one bit of an embedding", m -> nudge(m, "model.embed_tokens.weight", 4000, 1)));
            all.add(value(
                    kind, "one bit of a router", m -> nudge(m, "model.layers.1.block_sparse_moe.gate.weight", 3, 1)));
            all.add(value(
                    kind,
                    "a norm of a layer negated",
                    m -> addToShorts(m, "model.layers.1.input_layernorm.weight", 0x8000)));
            if (kind == Kind.PLAIN) {
                all.add(value(kind, "one bit of a Linear", m -> nudge(m, O + ".weight", 77, 1)));
            }
        }
        return all;
    }

    static List<Sabotage> weightSabotages() {
        List<Sabotage> all = new ArrayList<>();
        for (Kind kind : EnumSet.complementOf(EnumSet.of(Kind.PLAIN))) {
            all.add(weight(kind, "one sign flipped", m -> flipSigns(m, O, 1)));
            all.add(weight(kind, "300 signs flipped", m -> flipSigns(m, O, 300)));
            all.add(weight(kind, "a sign of an expert flipped", m -> flipSigns(m, EXPERT, 1)));
            all.add(weight(kind, "one code two steps off", m -> shiftCode(m, O)));
            all.add(weight(kind, "all codes zero", m -> clear(m, codes(m, O), 0, bytes(m, O))));
            all.add(weight(kind, "20 rows zero", m -> clear(m, codes(m, O), 0, bytes(m, O) / 256 * 20)));
            all.add(weight(kind, "half of a row zero", m -> clear(m, codes(m, O), 0, bytes(m, O) / 512)));
            all.add(weight(kind, "two rows exchanged", m -> exchangeRows(m, O)));
            all.add(weight(kind, "k and v exchanged", m -> exchange(m, codes(m, K), codes(m, V))));
            all.add(weight(kind, "a weight of another layer", m -> copyFrom(m, O, "model.layers.1.self_attn.o_proj")));
            all.add(weight(kind, "all signs flipped", m -> flipSigns(m, O, 256 * 256)));
        }
        all.add(weight(Kind.FP8_BLOCK, "scales of a weight x2", m -> scale(m, O + ".weight_scale_inv", 2)));
        all.add(weight(Kind.CT_CHANNEL, "scales of a weight x2", m -> scale(m, O + ".weight_scale", 2)));
        all.add(weight(Kind.CT_INT8, "scales of a weight x2", m -> scale(m, O + ".weight_scale", 2)));
        all.add(weight(
                Kind.CT_CHANNEL,
                "one scale x2",
                m -> m.set(O + ".weight_scale", 9, 2 * scaleAt(m, O + ".weight_scale", 9))));
        all.add(weight(
                Kind.FP8_BLOCK,
                "one scale x0.5",
                m -> m.set(O + ".weight_scale_inv", 1, scaleAt(m, O + ".weight_scale_inv", 1) / 2)));
        all.add(warned(Kind.FP8_BLOCK, m -> scale(m, O + ".weight_scale_inv", 1.05f)));
        all.add(weight(Kind.CT_INT8, "scales x1.05", m -> scale(m, O + ".weight_scale", 1.05f)));
        return all;
    }

    private static Sabotage value(Kind kind, String words, Change change) {
        return new Sabotage(words, kind, change, List.of("value-differs"), Severity.ERROR);
    }

    private static Sabotage weight(Kind kind, String words, Change change) {
        return new Sabotage(
                words,
                kind,
                change,
                List.of("weight-differs", "weight-direction", "weight-transposed"),
                Severity.ERROR);
    }

    private static Sabotage warned(Kind kind, Change change) {
        return new Sabotage("scales x1.05", kind, change, List.of("weight-rounding"), Severity.WARNING);
    }

    @Tag("sweep")
    @ParameterizedTest
    @MethodSource("otherValueSabotages")
    void whatever_is_changed_in_other_layouts_is_found(Sabotage sabotage) throws IOException {
        whatever_is_changed_is_found(sabotage);
    }

    @ParameterizedTest
    @MethodSource({"valueSabotages", "weightSabotages"})
    void whatever_is_changed_is_found(Sabotage sabotage) throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(sabotage.kind);
        sabotage.change.to(model);
        List<Finding> findings = verify(model);
        assertTrue(
                findings.stream().anyMatch(f -> sabotage.rules.contains(f.rule()) && f.severity() == sabotage.severity),
                findings.toString());
    }

    private List<Finding> verify(GoodCheckpoint model) throws IOException {
        model.write(folder);
        EnumSet<Consumer> readers = EnumSet.copyOf(model.kind.consumers());
        return Verifier.verify(
                        folder,
                        VerifyOptions.defaults()
                                .withConsumers(readers)
                                .withOriginal(originalFolder)
                                .withDeep(true)
                                .withThreads(2))
                .findings();
    }

    private static final List<String> COMPARING = List.of("weight-differs", "weight-rounding", "value-differs");

    /** Codes as compensated rounding leaves them: nearest to what the rounding of other columns added. */
    @ParameterizedTest
    @MethodSource("compensations")
    void weights_rounded_with_compensation_get_one_line_of_advice(Kind kind, double size) throws IOException {
        List<Finding> findings = verify(compensated(kind, size)).stream()
                .filter(f -> COMPARING.contains(f.rule()))
                .toList();
        assertEquals(1, findings.size(), findings.toString());
        assertEquals(Severity.ADVICE, findings.getFirst().severity(), findings.toString());
        assertTrue(findings.getFirst().what().contains("GPTQ"), findings.toString());
    }

    static List<Object[]> compensations() {
        List<Object[]> all = new ArrayList<>();
        for (Kind kind : List.of(Kind.CT_CHANNEL, Kind.CT_INT8, Kind.FP8_BLOCK)) {
            for (double size : new double[] {0.3, 1}) {
                all.add(new Object[] {kind, size});
            }
        }
        return all;
    }

    @Test
    void codes_further_off_than_compensation_brings_them_are_warned_of() throws IOException {
        List<Finding> findings = verify(compensated(Kind.CT_INT8, 3)).stream()
                .filter(f -> COMPARING.contains(f.rule()))
                .toList();
        assertEquals(1, findings.size(), findings.toString());
        assertEquals(Severity.WARNING, findings.getFirst().severity(), findings.toString());
    }

    /** The same, and then one large code has another sign. */
    @ParameterizedTest
    @MethodSource("compensations")
    void a_sign_among_compensated_codes_is_found(Kind kind, double size) throws IOException {
        GoodCheckpoint model = compensated(kind, size);
        flipLargest(model, O);
        List<Finding> findings = verify(model);
        assertTrue(
                findings.stream().anyMatch(f -> f.rule().equals("weight-differs") && f.count() == 1),
                findings.toString());
    }

    /** Every weight of a checkpoint with one scale in each row or block, moved by normal steps of INT8 before rounding. */
    private static GoodCheckpoint compensated(Kind kind, double size) {
        GoodCheckpoint plain = GoodCheckpoint.of(Kind.PLAIN);
        GoodCheckpoint model = GoodCheckpoint.of(kind);
        SplittableRandom random = new SplittableRandom(7);
        for (String name : List.copyOf(model.tensors.keySet())) {
            Stored codes = model.tensor(name);
            if (codes.dtype() != DType.F8_E4M3FN && codes.dtype() != DType.I8) {
                continue;
            }
            String module = name.substring(0, name.length() - ".weight".length());
            Stored values = plain.tensor(name);
            int columns = (int) (long) codes.shape().get(1);
            Stored scales = model.tensors.containsKey(module + ".weight_scale")
                    ? model.tensor(module + ".weight_scale")
                    : model.tensor(module + ".weight_scale_inv");
            int across = (int) (long) scales.shape().get(1);
            for (int i = 0; i < codes.bytes().capacity(); i++) {
                int row = i / columns;
                int at = across == 1 && kind != Kind.FP8_BLOCK ? row : row / 128 * across + i % columns / 128;
                float scale = scales.dtype() == DType.F32
                        ? scales.bytes().getFloat(4 * at)
                        : BFloat16.toFloat(scales.bytes().getShort(2 * at));
                double x = BFloat16.toFloat(values.bytes().getShort(2 * i)) / scale;
                double step = codes.dtype() == DType.I8 ? 1 : Math.max(1, Math.abs(x)) / 16 + 2;
                float moved = (float) (x + random.nextGaussian() * size * step);
                int code = codes.dtype() == DType.I8
                        ? (int) Math.clamp(Math.rint(moved), -127, 127)
                        : Float8Format.E4M3FN.encode(moved, Overflow.SATURATE);
                codes.bytes().put(i, (byte) code);
            }
        }
        return model;
    }

    @Test
    void an_original_in_another_float_type_is_rounded_once(@TempDir Path wideFolder) throws IOException {
        GoodCheckpoint wide = GoodCheckpoint.of(Kind.PLAIN);
        SplittableRandom random = new SplittableRandom(3);
        GoodCheckpoint model = GoodCheckpoint.of(Kind.PLAIN);
        for (String name : List.copyOf(wide.tensors.keySet())) {
            Stored narrow = wide.tensor(name);
            ByteBuffer bytes = GoodCheckpoint.buffer(narrow.bytes().capacity() * 2);
            ByteBuffer rounded = model.tensor(name).bytes();
            for (int i = 0; i < narrow.bytes().capacity() / 2; i++) {
                float x = (float) (random.nextGaussian() * 0.02);
                bytes.putFloat(4 * i, x);
                rounded.putShort(2 * i, BFloat16.fromFloat(x));
            }
            wide.put(
                    name,
                    DType.F32,
                    bytes,
                    narrow.shape().stream().mapToLong(d -> d).toArray());
        }
        wide.write(wideFolder);
        model.write(folder);
        VerifyOptions options =
                VerifyOptions.defaults().withOriginal(wideFolder).withDeep(true);
        assertEquals(List.of(), Verifier.verify(folder, options).findings());
    }

    private static String codes(GoodCheckpoint model, String module) {
        String packed = module + ".weight_packed";
        return model.tensors.containsKey(packed) ? packed : module + ".weight";
    }

    private static int bytes(GoodCheckpoint model, String module) {
        return model.tensor(codes(model, module)).bytes().capacity();
    }

    private static void clear(GoodCheckpoint model, String name, int from, int to) {
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int i = from; i < to; i++) {
            bytes.put(i, (byte) 0);
        }
    }

    private static void noise(GoodCheckpoint model, String name) {
        SplittableRandom random = new SplittableRandom(1);
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int i = 0; i < bytes.capacity(); i += 2) {
            bytes.putShort(i, BFloat16.fromFloat((float) (random.nextGaussian() * 0.02)));
        }
    }

    /** Doubles BF16 numbers (0x80) or negates them (0x8000). */
    private static void addToShorts(GoodCheckpoint model, String name, int bits) {
        ByteBuffer bytes = model.tensor(name).bytes();
        for (int i = 0; i < bytes.capacity(); i += 2) {
            bytes.putShort(i, (short) (bytes.getShort(i) + bits));
        }
    }

    private static void nudge(GoodCheckpoint model, String name, int index, int bits) {
        ByteBuffer bytes = model.tensor(name).bytes();
        bytes.putShort(2 * index, (short) (bytes.getShort(2 * index) + bits));
    }

    private static int signBits(GoodCheckpoint model, String module) {
        Stored codes = model.tensor(codes(model, module));
        return codes.dtype() == DType.U8 ? 0x8 : 0x80;
    }

    private static void negate(GoodCheckpoint model, String module, int at) {
        Stored codes = model.tensor(codes(model, module));
        byte code = codes.bytes().get(at);
        codes.bytes().put(at, codes.dtype() == DType.I8 ? (byte) -code : (byte) (code ^ signBits(model, module)));
    }

    /** Flips the signs of the first codes that are not zero. */
    private static void flipSigns(GoodCheckpoint model, String module, int count) {
        Stored codes = model.tensor(codes(model, module));
        int mask = codes.dtype() == DType.I8 ? 0xFF : signBits(model, module) - 1;
        int done = 0;
        for (int i = 0; i < codes.bytes().capacity() && done < count; i++) {
            if ((codes.bytes().get(i) & mask) != 0) {
                negate(model, module, i);
                done++;
            }
        }
    }

    private static void flipLargest(GoodCheckpoint model, String module) {
        Stored codes = model.tensor(codes(model, module));
        int largest = 0;
        for (int i = 0; i < codes.bytes().capacity(); i++) {
            largest = magnitude(codes, i) > magnitude(codes, largest) ? i : largest;
        }
        negate(model, module, largest);
    }

    private static int magnitude(Stored codes, int at) {
        byte code = codes.bytes().get(at);
        return codes.dtype() == DType.I8 ? Math.abs(code) : code & 0x7F;
    }

    /** Moves the first code of middling size by two steps towards zero. */
    private static void shiftCode(GoodCheckpoint model, String module) {
        Stored codes = model.tensor(codes(model, module));
        boolean fourBits = codes.dtype() == DType.U8;
        for (int i = 0; i < codes.bytes().capacity(); i++) {
            int code = codes.bytes().get(i) & (fourBits ? 0x7 : 0x7F);
            boolean positive = codes.bytes().get(i) >= 0 || fourBits;
            if (positive && code >= (fourBits ? 4 : 20)) {
                codes.bytes().put(i, (byte) (codes.bytes().get(i) - 2));
                return;
            }
        }
        throw new AssertionError("no such code");
    }

    private static void exchangeRows(GoodCheckpoint model, String module) {
        Stored codes = model.tensor(codes(model, module));
        int row = bytes(model, module) / 256;
        byte[] first = new byte[row];
        byte[] second = new byte[row];
        codes.bytes().get(0, first);
        codes.bytes().get(row, second);
        codes.bytes().put(0, second);
        codes.bytes().put(row, first);
    }

    private static void exchange(GoodCheckpoint model, String first, String second) {
        Stored a = model.tensor(first);
        model.tensors.put(first, model.tensor(second));
        model.tensors.put(second, a);
    }

    private static void copyFrom(GoodCheckpoint model, String module, String other) {
        model.tensors.put(
                codes(model, module),
                requireNonNull(model.tensor(codes(model, other))).copy());
    }

    private static float scaleAt(GoodCheckpoint model, String name, int index) {
        return model.tensor(name).bytes().getFloat(4 * index);
    }

    private static void scale(GoodCheckpoint model, String name, float by) {
        for (int i = 0; i < model.tensor(name).bytes().capacity() / 4; i++) {
            model.set(name, i, scaleAt(model, name, i) * by);
        }
    }
}
