package dev.octet.converter.inspect;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufFileType;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufKind;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufValue;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * What a GGUF file holds, of any architecture. Reads keys and the list of tensors, never weights. A key that is absent, or of another kind than
 * llama.cpp writes, is null here; {@link #metadata} has it as it is.
 *
 * @param path the opened file
 * @param format {@code gguf}
 * @param version of the format
 * @param fileBytes size on disk
 * @param architecture {@code general.architecture}
 * @param name {@code general.name}
 * @param fileType {@code general.file_type}, the mix of types that the writer aimed at: {@code Q4_K_M}, or its number where it has no known name
 * @param dimensions sizes of the architecture; null when no key states them
 * @param rotary settings of the rotary embedding; null when no key states any
 * @param tokenizer null when there is none
 * @param tensors totals over all tensors, by ggml's type
 * @param list every tensor, in the order of its bytes
 * @param metadata all keys; of an array its length and kind
 * @param notConverted why {@code octet convert --target huggingface} refuses it; null when it makes a folder of it
 */
public record GgufFacts(
        String path,
        String format,
        int version,
        long fileBytes,
        @Nullable String architecture,
        @Nullable String name,
        @Nullable String fileType,
        @Nullable Dimensions dimensions,
        @Nullable Rotary rotary,
        @Nullable Tokenizer tokenizer,
        Inspection.Tensors tensors,
        List<TensorFact> list,
        Map<String, String> metadata,
        @Nullable String notConverted) {
    private static final String WEIGHT = "weight";

    /**
     * The rotary embedding.
     *
     * @param dimensions elements of a head that are rotated
     * @param base of the frequencies, theta
     * @param scaling {@code none}, {@code linear}, {@code yarn} and so on
     * @param factor of the scaling
     * @param originalContext context before scaling
     * @param factors elements of the tensor {@code rope_freqs.weight}, which divides each frequency; null where there is none
     */
    public record Rotary(
            @Nullable Long dimensions,
            @Nullable Double base,
            @Nullable String scaling,
            @Nullable Double factor,
            @Nullable Long originalContext,
            @Nullable Long factors) {}

    /**
     * The tokenizer.
     *
     * @param model {@code llama} (SentencePiece), {@code gpt2} (byte-level BPE) and so on
     * @param pre how texts are split before merging, by llama.cpp's name
     * @param tokens their number
     * @param merges their number; null where there are none
     * @param bos the token that begins a text
     * @param eos the token that ends one
     * @param chatTemplate whether there is one
     */
    public record Tokenizer(
            @Nullable String model,
            @Nullable String pre,
            @Nullable Long tokens,
            @Nullable Long merges,
            @Nullable Long bos,
            @Nullable Long eos,
            boolean chatTemplate) {}

    public GgufFacts {
        list = List.copyOf(list);
        metadata = Collections.unmodifiableMap(new LinkedHashMap<>(metadata));
    }

    /**
     * Looks at a file.
     *
     * @param notConverted why no folder can be made of it; null when one can
     * @throws MalformedModelException when it breaks a rule of the format
     * @throws UnsupportedModelException for another version, byte order or type of tensors
     * @throws IOException when it is missing or cannot be read
     */
    public static GgufFacts of(Path path, @Nullable String notConverted) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(path, arena);
            return new Reader(file.header()).facts(path, file.bytes().byteSize(), notConverted);
        }
    }

    /** Finds the facts among the keys. */
    private record Reader(GgufHeader header) {
        GgufFacts facts(Path path, long bytes, @Nullable String notConverted) {
            String architecture = text("general.architecture");
            List<TensorFact> list =
                    header.entries().stream().map(e -> fact(e.tensor())).toList();
            Map<String, String> metadata = new LinkedHashMap<>();
            header.metadata().forEach((key, value) -> metadata.put(key, shown(value)));
            String prefix = architecture == null ? "" : architecture + ".";
            return new GgufFacts(
                    path.toString(),
                    "gguf",
                    header.version(),
                    bytes,
                    architecture,
                    text("general.name"),
                    fileType(),
                    dimensions(prefix, architecture),
                    rotary(prefix),
                    tokenizer(),
                    totals(),
                    list,
                    metadata,
                    notConverted);
        }

        private @Nullable Dimensions dimensions(String prefix, @Nullable String architecture) {
            Long vocabulary = size(prefix + "vocab_size");
            Dimensions d = new Dimensions(
                    architecture,
                    size(prefix + "block_count"),
                    size(prefix + "embedding_length"),
                    size(prefix + "feed_forward_length"),
                    size(prefix + "attention.head_count"),
                    size(prefix + "attention.head_count_kv"),
                    size(prefix + "expert_count"),
                    vocabulary == null ? length("tokenizer.ggml.tokens") : vocabulary,
                    size(prefix + "context_length"));
            return d.layers() == null && d.hidden() == null && d.vocabulary() == null && d.context() == null ? null : d;
        }

        private @Nullable Rotary rotary(String prefix) {
            Rotary r = new Rotary(
                    size(prefix + "rope.dimension_count"),
                    number(prefix + "rope.freq_base"),
                    text(prefix + "rope.scaling.type"),
                    number(prefix + "rope.scaling.factor"),
                    size(prefix + "rope.scaling.original_context_length"),
                    header.entries().stream()
                            .map(GgufHeader.Entry::tensor)
                            .filter(t -> t.name().equals("rope_freqs.weight"))
                            .map(t -> t.shape().elementCount())
                            .findFirst()
                            .orElse(null));
            return r.equals(new Rotary(null, null, null, null, null, null)) ? null : r;
        }

        private @Nullable Tokenizer tokenizer() {
            String prefix = "tokenizer.ggml.";
            String model = text(prefix + "model");
            Long tokens = length(prefix + "tokens");
            return model == null && tokens == null
                    ? null
                    : new Tokenizer(
                            model,
                            text(prefix + "pre"),
                            tokens,
                            length(prefix + "merges"),
                            size(prefix + "bos_token_id"),
                            size(prefix + "eos_token_id"),
                            header.value("tokenizer.chat_template").isPresent());
        }

        private @Nullable String fileType() {
            Long number = size(GgufFileType.KEY);
            return number == null
                    ? null
                    : GgufFileType.of(number).map(Enum::name).orElseGet(number::toString);
        }

        private Inspection.Tensors totals() {
            Map<GgufType, List<GgufTensor>> types = new EnumMap<>(GgufType.class);
            long parameters = 0;
            for (GgufHeader.Entry e : header.entries()) {
                GgufTensor t = e.tensor();
                types.computeIfAbsent(t.type(), _ -> new ArrayList<>()).add(t);
                if (role(t).equals(WEIGHT)) {
                    parameters += t.shape().elementCount();
                }
            }
            List<Inspection.DTypeShare> shares = types.entrySet().stream()
                    .map(e -> new Inspection.DTypeShare(
                            e.getKey().name(), e.getValue().size(), elements(e.getValue()), bytes(e.getValue())))
                    .sorted(Comparator.comparingLong(Inspection.DTypeShare::bytes)
                            .reversed()
                            .thenComparing(Inspection.DTypeShare::dtype))
                    .toList();
            return new Inspection.Tensors(
                    header.entries().size(),
                    shares.stream().mapToLong(Inspection.DTypeShare::elements).sum(),
                    shares.stream().mapToLong(Inspection.DTypeShare::bytes).sum(),
                    parameters,
                    shares);
        }

        private static long elements(List<GgufTensor> tensors) {
            return tensors.stream().mapToLong(t -> t.shape().elementCount()).sum();
        }

        private static long bytes(List<GgufTensor> tensors) {
            return tensors.stream().mapToLong(GgufTensor::byteSize).sum();
        }

        private static TensorFact fact(GgufTensor t) {
            return new TensorFact(
                    t.name(),
                    t.type().name(),
                    Arrays.stream(t.shape().toArray()).boxed().toList(),
                    t.shape().elementCount(),
                    t.byteSize(),
                    role(t),
                    null);
        }

        /** Upper scales lie beside the weights that they belong to, and the factors of rotary frequencies are no weights either. */
        private static String role(GgufTensor t) {
            return t.name().endsWith(".scale") || t.name().equals("rope_freqs.weight")
                    ? "scale"
                    : t.name().endsWith(".input_scale") ? "input-scale" : WEIGHT;
        }

        private @Nullable String text(String key) {
            return header.value(key).orElse(null) instanceof GgufValue.Text t ? t.text() : null;
        }

        private @Nullable Double number(String key) {
            return switch (header.value(key).orElse(null)) {
                // the shortest decimal that gives it in its own type: 1e-06, not 9.99999997e-07
                case GgufValue.Real r
                when Double.isFinite(r.number()) ->
                    r.kind() == GgufKind.F32 ? Double.valueOf(Float.toString((float) r.number())) : r.number();
                case GgufValue.Whole w -> (double) w.number();
                case null, default -> null;
            };
        }

        /** A number that is not negative; of one for each layer, the largest. */
        private @Nullable Long size(String key) {
            OptionalLong found = switch (header.value(key).orElse(null)) {
                case GgufValue.Whole w -> OptionalLong.of(w.number());
                case GgufValue.Sequence s ->
                    s.values().stream()
                            .mapToLong(v -> v instanceof GgufValue.Whole w ? w.number() : -1)
                            .max();
                case null, default -> OptionalLong.empty();
            };
            return found.isPresent() && found.getAsLong() >= 0 ? (Long) found.getAsLong() : null;
        }

        private @Nullable Long length(String key) {
            return header.value(key).orElse(null) instanceof GgufValue.Sequence s
                    ? Long.valueOf(s.values().size())
                    : null;
        }

        private static String shown(GgufValue value) {
            return switch (value) {
                case GgufValue.Whole w ->
                    w.kind() == GgufKind.U64 ? Long.toUnsignedString(w.number()) : Long.toString(w.number());
                case GgufValue.Real r ->
                    r.kind() == GgufKind.F32 ? Float.toString((float) r.number()) : Double.toString(r.number());
                case GgufValue.Truth t -> Boolean.toString(t.value());
                case GgufValue.Text t -> t.text();
                case GgufValue.Sequence s ->
                    s.values().size() + " x " + s.element().name().toLowerCase(Locale.ROOT);
            };
        }
    }
}
