package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeElement;
import java.lang.classfile.Instruction;
import java.lang.classfile.MethodModel;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LineNumber;
import java.lang.classfile.instruction.LoadInstruction;
import java.lang.classfile.instruction.StoreInstruction;
import java.lang.classfile.instruction.TypeCheckInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.reflect.AccessFlag;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Messages are sentences: what Java writes of a record, {@code PerChannel[axis=-2]}, and names of unfinished files are not for users. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MessageTextTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /** A key of a map, and the listing of a program that {@code octet gradient --program} prints. */
    private static final Set<String> NOT_MESSAGES = Set.of(
            "dev.octet.converter.checkpoint.ConsumersGraph$Work.rounded", "dev.octet.trainer.program.ProgramText.step");

    @TempDir
    Path folder;

    /** A record as Java writes it, and a text made of it, which the search below must find. */
    record Planted(int axis) {
        static String text(Planted planted) {
            return "by " + planted;
        }
    }

    @Test
    void no_text_is_made_of_a_record_as_java_writes_it() throws IOException {
        Map<String, ClassModel> octet = new HashMap<>();
        for (JavaClass c : new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("dev.octet")) {
            if (!c.getName().startsWith(MessageTextTest.class.getName())) {
                octet.put(c.getName().replace('.', '/'), parsed(c.getName()));
            }
        }
        assertEquals(List.of(), textsOfRecords(octet));
        octet.put("planted", parsed(Planted.class.getName()));
        assertEquals(1, textsOfRecords(octet).size(), "the search finds what is there");
    }

    /** Read, not loaded: what spark's classes extend is not here. */
    private static ClassModel parsed(String name) throws IOException {
        String file = name.replace('.', '/') + ".class";
        try (InputStream in =
                Objects.requireNonNull(MessageTextTest.class.getClassLoader().getResourceAsStream(file), file)) {
            return ClassFile.of().parse(in.readAllBytes());
        }
    }

    /** Places where a text is joined from a record without a toString of its own, or from an interface of one. */
    private static List<String> textsOfRecords(Map<String, ClassModel> classes) {
        Set<String> records = new HashSet<>();
        classes.values().stream()
                .filter(MessageTextTest::isRecordWithoutText)
                .forEach(c -> records.add(c.thisClass().asInternalName()));
        Set<String> shown = new HashSet<>(records);
        shown.add("java/util/Optional"); // Optional[x]
        classes.values().stream()
                .filter(c -> records.contains(c.thisClass().asInternalName()))
                .forEach(c -> c.interfaces().stream()
                        .map(i -> i.asInternalName())
                        .filter(classes::containsKey)
                        .forEach(shown::add));
        List<String> found = new ArrayList<>();
        for (ClassModel c : classes.values()) {
            for (MethodModel method : c.methods()) {
                String place = c.thisClass().asInternalName().replace('/', '.') + "."
                        + method.methodName().stringValue();
                if (!NOT_MESSAGES.contains(place)) {
                    found.addAll(textsOf(method, place, shown));
                }
            }
        }
        return found;
    }

    /** Values that {@code String.valueOf} or {@code append} take, which is what javac makes of the parts of a text. */
    private static List<String> textsOf(MethodModel method, String place, Set<String> shown) {
        List<String> found = new ArrayList<>();
        Map<Integer, String> locals = parameters(method);
        CodeElement last = null;
        int line = 0;
        for (CodeElement element : method.code().map(c -> c.elementList()).orElse(List.of())) {
            if (element instanceof LineNumber number) {
                line = number.line();
            }
            if (!(element instanceof Instruction)) {
                continue;
            }
            if (element instanceof StoreInstruction store) {
                locals.put(store.slot(), pushed(last, locals));
            }
            if (element instanceof InvokeInstruction call && isTextOfObject(call)) {
                String type = pushed(last, locals);
                if (shown.contains(type)) {
                    found.add(place + ", line " + line + ": " + type);
                }
            }
            last = element;
        }
        return found;
    }

    private static Map<Integer, String> parameters(MethodModel method) {
        Map<Integer, String> types = new HashMap<>();
        int slot = method.flags().has(AccessFlag.STATIC) ? 0 : 1;
        for (ClassDesc type : method.methodTypeSymbol().parameterList()) {
            types.put(slot, internalName(type));
            slot += type.equals(ConstantDescs.CD_long) || type.equals(ConstantDescs.CD_double) ? 2 : 1;
        }
        return types;
    }

    private static boolean isTextOfObject(InvokeInstruction call) {
        boolean named = call.name().equalsString("valueOf") || call.name().equalsString("append");
        return named
                && call.owner().asInternalName().startsWith("java/lang/String")
                && call.typeSymbol().parameterList().equals(List.of(ConstantDescs.CD_Object));
    }

    /** The class of what an instruction pushed, as far as it says so. */
    private static String pushed(@Nullable CodeElement e, Map<Integer, String> locals) {
        return switch (e) {
            case InvokeInstruction call -> internalName(call.typeSymbol().returnType());
            case FieldInstruction field -> internalName(field.typeSymbol());
            case LoadInstruction load -> locals.getOrDefault(load.slot(), "");
            case TypeCheckInstruction check -> check.type().asInternalName();
            case null, default -> "";
        };
    }

    private static String internalName(ClassDesc type) {
        String text = type.descriptorString();
        return type.isClassOrInterface() ? text.substring(1, text.length() - 1) : "";
    }

    /** Whether its toString is the one that Java makes for records. */
    private static boolean isRecordWithoutText(ClassModel c) {
        boolean isRecord = c.superclass()
                .filter(s -> s.asInternalName().equals("java/lang/Record"))
                .isPresent();
        return isRecord
                && c.methods().stream()
                        .filter(m -> m.methodName().equalsString("toString"))
                        .flatMap(m -> m.code().stream())
                        .flatMap(code -> code.elementStream())
                        .anyMatch(e -> e instanceof InvokeDynamicInstruction i
                                && i.bootstrapMethod().owner().displayName().equals("ObjectMethods"));
    }

    @ParameterizedTest
    @CsvSource({"ct-fp8-dynamic, fp8", "ct-int8, modelopt", "hf-fp8-block-ue8m0, modelopt", "ct-nvfp4, fp8"})
    void a_scheme_that_a_layout_cannot_have_is_named_in_words(String model, String target) {
        CommandLine run = CommandLine.run(
                "convert",
                TESTDATA.resolve("checkpoints/foreign").resolve(model).toString(),
                "--target",
                target,
                "-o",
                folder.resolve("out").toString());
        assertTrue(run.code() != ExitCode.BUG, run.err());
        assertTrue(!run.err().matches("(?s).*\\w+\\[\\w+=.*"), run.err());
    }
}
