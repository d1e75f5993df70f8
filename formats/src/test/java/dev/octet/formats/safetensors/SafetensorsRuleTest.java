package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** One planted fault for each rule, and each limit at n-1, n, n+1. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SafetensorsRuleTest {
    private static final String EMPTY_ENTRY = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";

    private static void refused(SafetensorsRule rule, SafetensorsBytes file) {
        refused(rule, file, HeaderLimits.DEFAULT);
    }

    private static void refused(SafetensorsRule rule, SafetensorsBytes file, HeaderLimits limits) {
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> file.parse(limits));
        assertEquals(rule.id(), e.rule().orElseThrow(), e.getMessage());
        assertTrue(e.what().endsWith("[" + rule.id() + "]"), e.what());
        assertTrue(e.where().startsWith("test.safetensors"), e.where());
        assertFalse(e.fix().isBlank());
    }

    private static SafetensorsBytes entries(String json, int dataBytes) {
        return SafetensorsBytes.of(json.replace('\'', '"'), dataBytes);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 7})
    void a_file_shorter_than_the_length_field_is_refused(int bytes) {
        MalformedModelException e = assertThrows(
                MalformedModelException.class,
                () -> SafetensorsHeader.parse(
                        MemorySegment.ofArray(new byte[bytes]), "test.safetensors", HeaderLimits.DEFAULT));
        assertEquals("HeaderTooSmall", e.rule().orElseThrow());
    }

    @ParameterizedTest
    @ValueSource(longs = {HeaderLimits.MAX_HEADER_BYTES + 1, Long.MAX_VALUE, Long.MIN_VALUE, -1})
    void a_header_over_the_limit_is_refused(long headerBytes) {
        refused(SafetensorsRule.HEADER_TOO_LARGE, SafetensorsBytes.of("{}", 0).withHeaderBytes(headerBytes));
    }

    @ParameterizedTest
    @ValueSource(longs = {HeaderLimits.MAX_HEADER_BYTES - 1, HeaderLimits.MAX_HEADER_BYTES})
    void a_header_at_the_limit_is_not_too_large(long headerBytes) {
        // It ends outside of this small file, which is the next rule.
        refused(
                SafetensorsRule.INVALID_HEADER_LENGTH,
                SafetensorsBytes.of("{}", 0).withHeaderBytes(headerBytes));
    }

    @Test
    void the_header_limit_counts_the_padding_and_can_be_set() {
        SafetensorsBytes file = SafetensorsBytes.of("{}  ", 0);
        HeaderLimits limits = HeaderLimits.DEFAULT;
        assertEquals(0, file.parse(limits.withMaxHeaderBytes(5)).entries().size());
        assertEquals(0, file.parse(limits.withMaxHeaderBytes(4)).entries().size());
        refused(SafetensorsRule.HEADER_TOO_LARGE, file, limits.withMaxHeaderBytes(3));
    }

    @Test
    void a_header_longer_than_the_file_is_refused() {
        SafetensorsBytes file = SafetensorsBytes.of("{}", 0);
        refused(SafetensorsRule.INVALID_HEADER_LENGTH, file.withHeaderBytes(3));
        assertEquals(0, file.withHeaderBytes(2).parse().entries().size());
        refused(SafetensorsRule.INVALID_HEADER_DESERIALIZATION, file.withHeaderBytes(1));
        refused(SafetensorsRule.INVALID_HEADER_DESERIALIZATION, file.withHeaderBytes(0));
    }

    @Test
    void a_header_that_is_not_utf8_is_refused() {
        byte[][] broken = {
            {'{', '"', (byte) 0xFF, '"', ':', '1', '}'},
            {'{', '"', (byte) 0xC0, (byte) 0x80, '"', ':', '1', '}'}, // overlong
            {'{', '"', (byte) 0xED, (byte) 0xA0, (byte) 0x80, '"', ':', '1', '}'}, // half a surrogate pair
            {'{', '"', (byte) 0xE4, (byte) 0xB8}, // cut off
        };
        for (byte[] header : broken) {
            refused(SafetensorsRule.INVALID_HEADER, new SafetensorsBytes(header.length, header, new byte[0]));
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "[]",
                "1",
                "{",
                "{}{}",
                "{}\0",
                "\0\0{}",
                "\uFEFF{}",
                "{'a':1}",
                "{'a':null}",
                "{'a':['U8',[0],[0,0]]}",
                "{'a':{}}",
                "{'a':{'shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0]}}",
                "{'a':{'dtype':'u8','shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'F8_E4M3FN','shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':8,'shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':0,'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[-1],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[-0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0.0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':['0'],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[null],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[[0]],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0,18446744073709551616],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0]}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0,0]}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':{}}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':null}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0],'x':NaN}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0]},}",
                "{'__metadata__':{'a':1}}",
                "{'__metadata__':{'a':null}}",
                "{'__metadata__':[]}",
                "{'\\ud800':{'dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
                "{'\\udc00\\ud800':{'dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
                "{'\n':{'dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
            })
    void a_header_of_another_form_is_refused(String json) {
        refused(SafetensorsRule.INVALID_HEADER_DESERIALIZATION, entries(json, 0));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{}",
                " \t\r\n{} \n",
                "{'__metadata__':null}",
                "{'__metadata__':{}}",
                "{'':{'dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'data_offsets':[0,0],'shape':[0],'dtype':'U8'}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0],'x':{'y':[1,null]},'x':2}}",
                "{'a':{'dt\\u0079pe':'\\u00558','shape':[0],'data_offsets':[0,0]}}",
                "{'\\ud83d\\ude00':{'dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
            })
    void what_the_reference_reader_accepts_is_accepted(String json) {
        entries(json, 0).parse();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                // a lead-in
                "{'a':{'dtype':'U8','shape':[2],'data_offsets':[1,3]}}",
                // a hole
                "{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},'b':{'dtype':'U8','shape':[1],'data_offsets':[2,3]}}",
                // an overlap
                "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'b':{'dtype':'U8','shape':[2],'data_offsets':[1,3]}}",
                // the same bytes twice
                "{'a':{'dtype':'U8','shape':[3],'data_offsets':[0,3]},'b':{'dtype':'U8','shape':[3],'data_offsets':[0,3]}}",
                // an end before the beginning
                "{'a':{'dtype':'U8','shape':[3],'data_offsets':[0,3]},'b':{'dtype':'U8','shape':[0],'data_offsets':[3,0]}}",
                // beyond 63 bits
                "{'a':{'dtype':'U8','shape':[3],'data_offsets':[18446744073709551615,18446744073709551615]}}",
            })
    void tensors_that_do_not_follow_each_other_are_refused(String json) {
        refused(SafetensorsRule.INVALID_OFFSET, entries(json, 3));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "4294967296,4294967296",
                "9223372036854775807",
                "9223372036854775808",
                "18446744073709551615",
                "9223372036854775807,2,0",
                "1152921504606846976", // 2^60 elements: 2^63 bits
            })
    void a_size_that_overflows_is_refused(String dims) {
        refused(SafetensorsRule.VALIDATION_OVERFLOW, SafetensorsBytes.ofTensor("U8", dims, 0));
    }

    @Test
    void the_largest_size_that_can_be_counted_is_merely_not_in_the_file() {
        refused(SafetensorsRule.TENSOR_INVALID_INFO, SafetensorsBytes.ofTensor("U8", Long.toString((1L << 60) - 1), 0));
    }

    @Test
    void elements_that_do_not_fill_bytes_are_refused() {
        refused(SafetensorsRule.MISALIGNED_SLICE, SafetensorsBytes.ofTensor("F4", "3", 2));
        refused(SafetensorsRule.MISALIGNED_SLICE, SafetensorsBytes.ofTensor("F6_E2M3", "3", 3));
        refused(SafetensorsRule.MISALIGNED_SLICE, SafetensorsBytes.ofTensor("F6_E3M2", "2,3", 5));
        assertEquals(1, SafetensorsBytes.ofTensor("F4", "2", 1).parse().dataBytes());
        assertEquals(3, SafetensorsBytes.ofTensor("F6_E2M3", "4", 3).parse().dataBytes());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 7, 9})
    void a_tensor_with_bytes_too_few_or_too_many_is_refused(int dataBytes) {
        refused(SafetensorsRule.TENSOR_INVALID_INFO, SafetensorsBytes.ofTensor("F32", "2", dataBytes));
    }

    @Test
    void a_file_that_ends_early_or_late_is_refused() {
        String json = "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}";
        refused(SafetensorsRule.METADATA_INCOMPLETE_BUFFER, entries(json, 1));
        refused(SafetensorsRule.METADATA_INCOMPLETE_BUFFER, entries(json, 3));
        refused(SafetensorsRule.METADATA_INCOMPLETE_BUFFER, entries("{}", 1));
        assertEquals(2, entries(json, 2).parse().dataBytes());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{'a':" + EMPTY_ENTRY + ",'a':" + EMPTY_ENTRY + "}",
                "{'a':" + EMPTY_ENTRY + ",'\\u0061':" + EMPTY_ENTRY + "}",
                "{'a':{'dtype':'U8','dtype':'U8','shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0],'shape':[0],'data_offsets':[0,0]}}",
                "{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0],'data_offsets':[0,0]}}",
                "{'__metadata__':{},'__metadata__':{}}",
                "{'__metadata__':null,'__metadata__':null}",
                "{'__metadata__':{'k':'1','k':'1'}}",
            })
    void whatever_occurs_twice_is_refused(String json) {
        refused(SafetensorsRule.DUPLICATE_KEY, entries(json, 0));
    }

    @Test
    void names_longer_than_the_limit_are_refused() {
        HeaderLimits limits = HeaderLimits.DEFAULT;
        for (int n : new int[] {8, 300}) {
            String json = "{'" + "n".repeat(n) + "':" + EMPTY_ENTRY + "}";
            int fields = "data_offsets".length();
            entries(json, 0).parse(limits.withMaxNameChars(Math.max(n + 1, fields)));
            entries(json, 0).parse(limits.withMaxNameChars(Math.max(n, fields)));
        }
        String json = "{'" + "n".repeat(300) + "':" + EMPTY_ENTRY + "}";
        refused(SafetensorsRule.LIMIT_EXCEEDED, entries(json, 0), limits.withMaxNameChars(299));
        String longest = "n".repeat(HeaderLimits.MAX_NAME_CHARS);
        entries("{'" + longest + "':" + EMPTY_ENTRY + "}", 0).parse();
        refused(SafetensorsRule.LIMIT_EXCEEDED, entries("{'" + longest + "n':" + EMPTY_ENTRY + "}", 0));
    }

    @Test
    void ranks_over_the_limit_are_refused() {
        for (int rank : new int[] {HeaderLimits.MAX_RANK - 1, HeaderLimits.MAX_RANK}) {
            SafetensorsHeader header = SafetensorsBytes.ofTensor("U8", "1,".repeat(rank - 1) + "1", 1)
                    .parse();
            assertEquals(rank, header.entries().getFirst().spec().shape().rank());
        }
        refused(
                SafetensorsRule.LIMIT_EXCEEDED,
                SafetensorsBytes.ofTensor("U8", "1,".repeat(HeaderLimits.MAX_RANK) + "1", 1));
    }

    @Test
    void nesting_over_the_limit_is_refused() {
        for (int depth : new int[] {HeaderLimits.MAX_NESTING - 1, HeaderLimits.MAX_NESTING}) {
            nested(depth).parse();
        }
        refused(SafetensorsRule.LIMIT_EXCEEDED, nested(HeaderLimits.MAX_NESTING + 1));
        refused(SafetensorsRule.LIMIT_EXCEEDED, nested(1_000_000));
    }

    /** A header nested {@code depth} levels deep, the two outer ones being objects. */
    private static SafetensorsBytes nested(int depth) {
        String arrays = "[".repeat(depth - 2) + "]".repeat(depth - 2);
        return entries("{'a':{'dtype':'U8','shape':[0],'data_offsets':[0,0],'x':" + arrays + "}}", 0);
    }

    @Test
    void limits_too_small_for_any_file_are_refused() {
        assertThrows(IllegalArgumentException.class, () -> new HeaderLimits(1, 10, 10, 10));
        assertThrows(IllegalArgumentException.class, () -> new HeaderLimits(2, 0, 10, 10));
        assertThrows(IllegalArgumentException.class, () -> new HeaderLimits(2, 1, -1, 10));
        assertThrows(IllegalArgumentException.class, () -> new HeaderLimits(2, 1, 0, 2));
    }

    @Test
    void entries_come_in_the_order_of_their_bytes() {
        SafetensorsHeader header = entries(
                        "{'b':{'dtype':'U8','shape':[1],'data_offsets':[4,5]},'__metadata__':{'k':'v'},"
                                + "'a':{'dtype':'F32','shape':[],'data_offsets':[0,4]}}",
                        5)
                .parse();
        assertEquals(
                List.of("a", "b"),
                header.entries().stream().map(e -> e.spec().name()).toList());
        assertEquals(DType.F32, header.entries().getFirst().spec().dtype());
        assertEquals(Shape.SCALAR, header.entries().getFirst().spec().shape());
        assertEquals("v", header.metadata().get("k"));
    }

    @Test
    void control_characters_of_a_name_do_not_reach_the_terminal() {
        byte[] json = "{\"\\u001b[2J\\n\":1}".getBytes(StandardCharsets.UTF_8);
        SafetensorsBytes file = new SafetensorsBytes(json.length, json, new byte[0]);
        MalformedModelException e = assertThrows(MalformedModelException.class, file::parse);
        assertTrue(e.what().contains("'\\u001b[2J\\u000a'"), e.what());
        assertEquals(3, String.valueOf(e.getMessage()).lines().count());
    }
}
