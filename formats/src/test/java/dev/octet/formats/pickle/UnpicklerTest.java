package dev.octet.formats.pickle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class UnpicklerTest {
    private static PickleValue read(String latin1) {
        return Unpickler.read(latin1.getBytes(StandardCharsets.ISO_8859_1), "test");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "cos\nsystem\n(S'echo'\ntR.", // REDUCE
                "(S'echo'\nios\nsystem\n.", // INST
                "(cos\nsystem\nS'echo'\no.", // OBJ
                "cos\nsystem\n)\u0081.", // NEWOBJ
                "\u0080\u0004\u008c\u0002os\u008c\u0006system\u0093.", // named, not called
                "\u0080\u0002ccollections\nOrderedDict\n)R}cos\nsystem\nsb." // in a state
            })
    void code_is_refused_by_name(String pickle) {
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> read(pickle));
        assertTrue(e.what().contains("os.system"), e.what());
    }

    @ParameterizedTest
    @CsvSource({
        "builtins,eval",
        "__builtin__,eval",
        "builtins,getattr",
        "torch,load",
        "torch.serialization,load",
        "posix,system",
        "nt,system",
        "subprocess,Popen",
        "numpy,load",
        "collections,Counter"
    })
    void what_tensors_do_not_need_is_refused(String module, String name) {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> read("c" + module + "\n" + name + "\n."));
        assertTrue(e.what().contains("." + name + ","), e.what());
    }

    @Test
    void a_call_of_what_a_call_made_is_refused() {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> read("ctorch\ndevice\n(S'cpu'\ntR)R."));
        assertEquals("the pickle calls what it made itself, which no tensor needs", e.what());
    }

    static Stream<String> damaged() {
        return Stream.of(
                "", // nothing
                ".", // no value
                "I1\nI2\n.", // two values
                "(I1\n.", // an open mark
                "I1\n", // no end
                "t.", // a tuple without a mark
                "g5\n.", // nothing kept under 5
                "\u0080\u0005\u0095\u00ff\u00ff\u0000\u0000\u0000\u0000\u0000\u0000N.", // a frame beyond the end
                "\u0080\u0005X\u00ff\u00ff\u00ff\u007fa.", // a text beyond the end
                "\u008e\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u007f.", // bytes of 2^63 - 1
                "\u008b\u00ff\u00ff\u00ff\u007f.", // an integer of 2^31 - 1 bytes
                "Ia\n.", // no number
                "I1\nI2\nb.", // a state for a number
                "I1\nI2\na.", // an element for a number
                "I1\nI2\nI3\ns.", // an item for a number
                "(I1\nd.", // a key without a value
                "\u00fe."); // no opcode
    }

    @ParameterizedTest
    @MethodSource
    void damaged(String pickle) {
        assertThrows(MalformedModelException.class, () -> read(pickle));
    }

    @Test
    void a_newer_protocol_is_refused() {
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> read("\u0080\u0006N."));
        assertEquals("the pickle has protocol 6; 5 is the newest known", e.what());
    }

    @Test
    void a_list_that_contains_itself_is_read() {
        Sequence list = assertInstanceOf(Sequence.class, read("]q\u0000h\u0000a."));
        assertSame(list, list.items().getFirst());
    }

    /** A list of ten lists of ten lists ...: ten levels are 10^10 elements for who walks, and a hundred values here. */
    @Test
    void lists_that_share_lists_take_no_more_room_than_their_pickle() {
        StringBuilder pickle = new StringBuilder("]p0\n0");
        for (int i = 1; i <= 30; i++) {
            pickle.append("]p").append(i).append("\n");
            pickle.append("(").append(("g" + (i - 1) + "\n").repeat(10)).append("e0");
        }
        Sequence last = assertInstanceOf(Sequence.class, read(pickle + "g30\n."));
        assertEquals(10, last.items().size());
    }

    @Test
    void more_values_than_the_limit_are_refused() {
        PickleLimits few = new PickleLimits(1 << 20, 5, 8);
        byte[] within = "(I1\nI2\nI3\nl.".getBytes(StandardCharsets.ISO_8859_1);
        byte[] beyond = "(I1\nI2\nI3\nI4\nI5\nl.".getBytes(StandardCharsets.ISO_8859_1);
        assertInstanceOf(Sequence.class, Unpickler.read(within, 0, "test", few).value());
        assertThrows(MalformedModelException.class, () -> Unpickler.read(beyond, 0, "test", few));
    }

    @Test
    void a_pickle_longer_than_the_limit_is_refused() {
        byte[] pickle = "N.".getBytes(StandardCharsets.ISO_8859_1);
        assertThrows(
                MalformedModelException.class, () -> Unpickler.read(pickle, 0, "test", new PickleLimits(1, 10, 8)));
    }

    static Stream<Arguments> integers_of_every_form() {
        return Stream.of(
                Arguments.of("I-7\n", "-7"),
                Arguments.of("K\u00ff", "255"),
                Arguments.of("M\u0001\u0002", "513"),
                Arguments.of("J\u00ff\u00ff\u00ff\u00ff", "-1"),
                Arguments.of("L-99999999999999999999L\n", "-99999999999999999999"),
                Arguments.of("\u008a\u0000", "0"),
                Arguments.of("\u008a\u0002\u0000\u0080", "-32768"));
    }

    @ParameterizedTest
    @MethodSource
    void integers_of_every_form(String opcode, BigInteger value) {
        assertEquals(new Int(value), read(opcode + "."));
    }

    @Test
    void the_later_value_of_a_key_counts() {
        Dict dict = assertInstanceOf(Dict.class, read("(dVa\nI1\nsVb\nI2\nsVa\nI3\ns."));
        assertEquals(2, dict.items().size());
        assertEquals(new Int(BigInteger.valueOf(3)), dict.get("a"));
    }

    @Test
    void an_object_is_its_class_arguments_and_state() {
        Instance instance = assertInstanceOf(
                Instance.class, read("ctorch.distributed.checkpoint.metadata\nMetadata\n)\u0081}Vversion\nV1.0\nsb."));
        assertEquals(
                "torch.distributed.checkpoint.metadata.Metadata",
                instance.type().qualified());
        assertEquals(new Text("1.0"), instance.field("version"));
    }

    @Test
    void names_are_safe_in_messages() {
        OctetException e = assertThrows(OctetException.class, () -> read("cevil\u001b[31m\nname\n."));
        assertTrue(e.what().chars().noneMatch(c -> c == 0x1b), e.what());
    }
}
