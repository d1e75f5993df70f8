package dev.octet.formats.safetensors;

import static dev.octet.formats.safetensors.SafetensorsHeader.METADATA_KEY;
import static dev.octet.formats.safetensors.SafetensorsRule.DUPLICATE_KEY;
import static dev.octet.formats.safetensors.SafetensorsRule.INVALID_HEADER;
import static dev.octet.formats.safetensors.SafetensorsRule.INVALID_HEADER_DESERIALIZATION;
import static dev.octet.formats.safetensors.SafetensorsRule.LIMIT_EXCEEDED;
import static dev.octet.formats.safetensors.SafetensorsRule.MISALIGNED_SLICE;
import static dev.octet.formats.safetensors.SafetensorsRule.VALIDATION_OVERFLOW;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.SegmentInputStream;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Reads the JSON of one header token by token and checks its form. {@link SafetensorsHeader} checks that the claims fit together and fit
 * the file.
 */
final class HeaderJson {
    /** The claim of one entry. Offsets beyond 63 bits become {@link Long#MAX_VALUE}, which no file reaches. */
    record Claim(TensorSpec spec, long begin, long end) {}

    /** The contents of a header. */
    record Content(Map<String, String> metadata, List<Claim> claims) {}

    /** For presizing: a short name, a short shape, offsets of ten digits. Growing tables of a million entries takes a third of the time. */
    private static final int TYPICAL_ENTRY_BYTES = 80;

    private static final String SHAPE_NO_COUNTS = "has a shape that is not an array of counts (integers from 0 up)";
    private static final String OFFSETS_NO_PAIR = "has data_offsets that are not a pair of counts (integers from 0 up)";

    /** Size of the cache of shapes; a model has a few dozen shapes, a hostile file as many as tensors. */
    private static final int KNOWN_SHAPES = 64;

    /** Shared, because a checkpoint has up to a thousand headers. */
    private static final JsonFactory DEFAULT = factory(HeaderLimits.DEFAULT);

    private final String name;
    private final HeaderLimits limits;
    private final JsonFactory factory;
    private final UnaryOperator<String> names;
    private final @Nullable Shape[] known = new @Nullable Shape[KNOWN_SHAPES];
    /** Dimensions of the current entry; grows with the ranks that occur. */
    private long[] dims = new long[8];

    /** As {@link SafetensorsHeader#parse(MemorySegment, String, HeaderLimits, UnaryOperator)}. */
    HeaderJson(String name, HeaderLimits limits, UnaryOperator<String> names) {
        this.name = name;
        this.limits = limits;
        this.names = names;
        this.factory = limits.equals(HeaderLimits.DEFAULT) ? DEFAULT : factory(limits);
    }

    private static JsonFactory factory(HeaderLimits limits) {
        return JsonFactory.builder()
                // Interning a million names that occur once costs memory and saves nothing.
                .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
                .streamReadConstraints(StreamReadConstraints.builder()
                        .maxNestingDepth(limits.maxNesting())
                        .maxNameLength(limits.maxNameChars())
                        .maxStringLength((int) Math.min(Integer.MAX_VALUE, limits.maxHeaderBytes()))
                        .build())
                .build();
    }

    /**
     * Reads the whole header.
     *
     * @throws MalformedModelException when the header is not UTF-8, not JSON, not of the required form, or exceeds a limit
     */
    Content parse(MemorySegment json) {
        // Parses characters: given bytes, Jackson would guess among UTF-8, 16 and 32 and accept broken UTF-8.
        // Uses a decoder, which reports bad bytes; a Charset would replace them.
        try (InputStreamReader reader =
                        new InputStreamReader(new SegmentInputStream(json), StandardCharsets.UTF_8.newDecoder());
                JsonParser parser = factory.createParser(reader)) {
            Content content =
                    header(parser, (int) Math.min(Integer.MAX_VALUE / 4, json.byteSize() / TYPICAL_ENTRY_BYTES));
            if (parser.nextToken() != null) {
                throw malformed("more text follows the header's object", parser);
            }
            return content;
        } catch (CharacterCodingException e) {
            throw INVALID_HEADER.broken(
                    "the header is not UTF-8 text", name + ", header, bytes 8.." + (8 + json.byteSize()), e);
        } catch (StreamConstraintsException e) {
            throw LIMIT_EXCEEDED.broken(e.getOriginalMessage(), where(e), e);
        } catch (JsonProcessingException e) {
            throw INVALID_HEADER_DESERIALIZATION.broken(
                    "the header is not JSON: " + e.getOriginalMessage(), where(e), e);
        } catch (IOException e) {
            throw new UncheckedIOException("memory does not fail", e);
        }
    }

    private Content header(JsonParser parser, int expectedEntries) throws IOException {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            throw malformed("the header is not a JSON object", parser);
        }
        Map<String, String> metadata = new LinkedHashMap<>();
        List<Claim> claims = new ArrayList<>(expectedEntries);
        Set<String> seen = HashSet.newHashSet(expectedEntries);
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String key = names.apply(checkedText(parser.currentName(), parser));
            if (!seen.add(key)) {
                throw DUPLICATE_KEY.broken("the header has two entries '" + key + "'", where(parser));
            }
            parser.nextToken();
            if (key.equals(METADATA_KEY)) {
                metadata(parser, metadata);
            } else {
                claims.add(claim(key, parser));
            }
        }
        return new Content(metadata, claims);
    }

    private void metadata(JsonParser parser, Map<String, String> metadata) throws IOException {
        if (parser.currentToken() == JsonToken.VALUE_NULL) {
            return; // the reference reader treats null as absent
        }
        require(parser.currentToken() == JsonToken.START_OBJECT, METADATA_KEY, "is not an object", parser);
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String key = checkedText(parser.currentName(), parser);
            require(
                    parser.nextToken() == JsonToken.VALUE_STRING,
                    METADATA_KEY,
                    "holds something else than texts",
                    parser);
            if (metadata.put(key, checkedText(parser.getText(), parser)) != null) {
                throw DUPLICATE_KEY.broken("the metadata has two entries '" + key + "'", where(parser));
            }
        }
    }

    /** One tensor; skips fields other than the three, as the reference reader does. */
    private Claim claim(String key, JsonParser parser) throws IOException {
        require(parser.currentToken() == JsonToken.START_OBJECT, key, "is not an object", parser);
        @Nullable DType dtype = null;
        @Nullable Shape shape = null;
        long begin = -1;
        long end = -1;
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String field = parser.currentName();
            parser.nextToken();
            switch (field) {
                case "dtype" -> {
                    requireFirst(dtype == null, key, field, parser);
                    dtype = dtype(key, parser);
                }
                case "shape" -> {
                    requireFirst(shape == null, key, field, parser);
                    shape = shape(key, parser);
                }
                case "data_offsets" -> {
                    requireFirst(begin < 0, key, field, parser);
                    require(parser.currentToken() == JsonToken.START_ARRAY, key, OFFSETS_NO_PAIR, parser);
                    parser.nextToken();
                    begin = count(key, OFFSETS_NO_PAIR, parser);
                    parser.nextToken();
                    end = count(key, OFFSETS_NO_PAIR, parser);
                    require(parser.nextToken() == JsonToken.END_ARRAY, key, OFFSETS_NO_PAIR, parser);
                }
                default -> parser.skipChildren();
            }
        }
        if (dtype == null || shape == null || begin < 0) {
            String missing = dtype == null ? "dtype" : shape == null ? "shape" : "data_offsets";
            throw malformed("header field '" + key + "' has no " + missing, parser);
        }
        return new Claim(spec(key, dtype, shape, parser), begin, end);
    }

    private DType dtype(String key, JsonParser parser) throws IOException {
        require(parser.currentToken() == JsonToken.VALUE_STRING, key, "has a dtype that is not a text", parser);
        String text = parser.getText();
        return DType.ofSafetensorsName(text)
                .orElseThrow(
                        () -> malformed("header field '" + key + "' has the unknown dtype '" + text + "'", parser));
    }

    private Shape shape(String key, JsonParser parser) throws IOException {
        require(parser.currentToken() == JsonToken.START_ARRAY, key, SHAPE_NO_COUNTS, parser);
        int rank = 0;
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            if (rank == limits.maxRank()) {
                throw LIMIT_EXCEEDED.broken(
                        "tensor '" + key + "' has more than " + limits.maxRank() + " dimensions", where(parser));
            }
            if (rank == dims.length) {
                dims = Arrays.copyOf(dims, 2 * rank);
            }
            long dim = count(key, SHAPE_NO_COUNTS, parser);
            if (dim == Long.MAX_VALUE) {
                throw overflow(key, null, parser);
            }
            dims[rank++] = dim;
        }
        try {
            return shared(Shape.of(Arrays.copyOf(dims, rank)));
        } catch (ArithmeticException e) {
            throw overflow(key, e, parser);
        }
    }

    /** An equal shape from the cache, so that 300,000 tensors of a dozen shapes share a dozen objects. */
    private Shape shared(Shape shape) {
        int at = Integer.remainderUnsigned(shape.hashCode() * 0x9E3779B9, KNOWN_SHAPES);
        Shape before = known[at];
        if (before != null && before.equals(shape)) {
            return before;
        }
        known[at] = shape;
        return shape;
    }

    private TensorSpec spec(String key, DType dtype, Shape shape, JsonParser parser) {
        long elements = shape.elementCount();
        if (elements > Long.MAX_VALUE / dtype.bits()) {
            throw overflow(key, null, parser);
        }
        if (elements * dtype.bits() % 8 != 0) {
            throw MISALIGNED_SLICE.broken(
                    "tensor '" + key + "': " + elements + " elements of " + dtype.bits()
                            + " bits do not fill whole bytes",
                    where(parser));
        }
        return new TensorSpec(key, dtype, shape);
    }

    private MalformedModelException overflow(String key, @Nullable Throwable cause, JsonParser parser) {
        return VALIDATION_OVERFLOW.broken("the size of tensor '" + key + "' overflows 63 bits", where(parser), cause);
    }

    /** The current token as a number from 0 to 2^64-1, clamped to {@link Long#MAX_VALUE}. */
    private long count(String key, String otherwise, JsonParser parser) throws IOException {
        require(
                parser.currentToken() == JsonToken.VALUE_NUMBER_INT
                        // Checks the text, because "-0" has the value 0 but the reference reader refuses it.
                        && parser.getTextCharacters()[parser.getTextOffset()] != '-',
                key,
                otherwise,
                parser);
        return switch (parser.getNumberType()) {
            case INT, LONG -> parser.getLongValue();
            case BIG_INTEGER -> {
                require(parser.getBigIntegerValue().bitLength() <= Long.SIZE, key, otherwise, parser);
                yield Long.MAX_VALUE;
            }
            case FLOAT, DOUBLE, BIG_DECIMAL -> throw new IllegalStateException("an integer token is not a float");
        };
    }

    /** Refuses half of a surrogate pair, which JSON escapes can spell but which is not text and cannot be written back. */
    private String checkedText(String text, JsonParser parser) {
        if (!Surrogates.paired(text)) {
            throw malformed("an escape spells half of a surrogate pair", parser);
        }
        return text;
    }

    private void requireFirst(boolean first, String key, String field, JsonParser parser) {
        if (!first) {
            throw DUPLICATE_KEY.broken("header field '" + key + "' has two fields " + field, where(parser));
        }
    }

    /** Builds the message only on failure, because this runs for every token. */
    private void require(boolean holds, String key, String otherwise, JsonParser parser) {
        if (!holds) {
            throw malformed("header field '" + key + "' " + otherwise, parser);
        }
    }

    private MalformedModelException malformed(String what, JsonParser parser) {
        return INVALID_HEADER_DESERIALIZATION.broken(what, where(parser));
    }

    private String where(JsonParser parser) {
        return name + ", header character " + parser.currentLocation().getCharOffset();
    }

    private String where(JsonProcessingException e) {
        return e.getLocation() == null
                ? name + ", header"
                : name + ", header character " + e.getLocation().getCharOffset();
    }
}
