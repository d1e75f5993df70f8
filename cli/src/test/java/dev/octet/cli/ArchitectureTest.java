package dev.octet.cli;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import dev.octet.formats.file.NativeTrial;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** The code is laid out as docs/layout.md says, whose tables are read here: rooms, and which of them may use which. */
@Execution(ExecutionMode.CONCURRENT)
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ArchitectureTest {
    /** It measures the others and is not shipped. */
    private static final Set<String> NOT_ON_THE_PAGE = Set.of("bench");

    private static final List<String> BANNED_ENDINGS =
            List.of("Util", "Utils", "Helper", "Manager", "Impl", "Common", "Base");

    private static JavaClasses octet;
    private static LayoutPage page;

    @BeforeAll
    static void read_the_page_and_all_classes() throws IOException {
        page = LayoutPage.read();
        octet = new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("dev.octet");
    }

    @Test
    void packages_have_no_circles() {
        slices().matching("dev.octet.(**)").should().beFreeOfCycles().check(octet);
    }

    @Test
    void a_module_uses_only_those_before_it_on_the_page() {
        page.modules()
                .forEach(step -> step.forEach(module -> usesNone(
                        "dev.octet." + module,
                        notBefore(page.modules(), module).stream().map(m -> "dev.octet." + m))));
    }

    @TestFactory
    Stream<DynamicTest> a_room_uses_only_those_before_it_on_the_page() {
        return page.rooms().entrySet().stream()
                .map(e -> DynamicTest.dynamicTest(e.getKey(), () -> {
                    String root = "dev.octet." + e.getKey() + ".";
                    e.getValue()
                            .forEach(row -> row.forEach(room -> usesNone(
                                    root + room,
                                    notBefore(e.getValue(), room).stream().map(r -> root + r))));
                }));
    }

    @TestFactory
    Stream<DynamicTest> the_page_names_every_room_once() {
        return page.rooms().entrySet().stream()
                .map(e -> DynamicTest.dynamicTest(e.getKey(), () -> {
                    String root = "dev.octet." + e.getKey() + ".";
                    List<String> rooms = octet.stream()
                            .map(JavaClass::getPackageName)
                            .filter(p -> p.startsWith(root))
                            .map(p -> p.substring(root.length()).replaceAll("\\..*", ""))
                            .distinct()
                            .sorted()
                            .toList();
                    assertEquals(
                            rooms,
                            e.getValue().stream().flatMap(List::stream).sorted().toList());
                }));
    }

    @Test
    void the_page_has_the_rooms_of_every_module_with_rooms() {
        Set<String> modules = octet.stream()
                .map(c -> c.getPackageName().split("\\."))
                .filter(p -> p.length > 3)
                .map(p -> p[2])
                .collect(Collectors.toCollection(TreeSet::new));
        modules.removeAll(NOT_ON_THE_PAGE);
        assertEquals(modules, new TreeSet<>(page.rooms().keySet()));
    }

    /** Those on the same step as {@code name} or above it, without itself. */
    private static List<String> notBefore(List<List<String>> steps, String name) {
        int own = IntStream.range(0, steps.size())
                .filter(i -> steps.get(i).contains(name))
                .findFirst()
                .orElseThrow();
        return steps.subList(own, steps.size()).stream()
                .flatMap(List::stream)
                .filter(n -> !n.equals(name))
                .toList();
    }

    private static void usesNone(String packageName, Stream<String> others) {
        String[] above = others.map(o -> o + "..").toArray(String[]::new);
        if (above.length > 0) {
            noClasses()
                    .that()
                    .resideInAPackage(packageName + "..")
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage(above)
                    .allowEmptyShould(true)
                    .check(octet);
        }
    }

    @Test
    void nothing_below_uses_the_root_class_of_its_module() {
        for (String module : page.rooms().keySet()) {
            String root = "dev.octet." + module;
            noClasses()
                    .that(resideInAPackage(root + "..").and(not(resideInAPackage(root))))
                    .should()
                    .dependOnClassesThat(resideInAPackage(root).and(not(isVersion())))
                    .allowEmptyShould(true)
                    .check(octet);
        }
    }

    /** A constant that writers put into files; it depends on nothing. */
    private static DescribedPredicate<JavaClass> isVersion() {
        return DescribedPredicate.describe(
                "the version of Octet", c -> c.getName().equals("dev.octet.formats.OctetVersion"));
    }

    @Test
    void only_one_room_runs_onnx_runtime() {
        onlyFrom("ai.onnxruntime..", "dev.octet.converter.runtime..");
    }

    @Test
    void only_two_rooms_know_protobuf() {
        // event files of TensorBoard are protobuf messages too; their few fields are written without generated classes
        onlyFrom("com.google.protobuf..", "dev.octet.formats.onnx..", "dev.octet.trainer.tensorboard..");
        onlyFrom("dev.octet.formats.onnx.proto..", "dev.octet.formats.onnx..");
    }

    @Test
    void only_the_cuda_device_knows_jcuda() {
        onlyFrom("jcuda..", "dev.octet.trainer.device.cuda..");
    }

    @Test
    void only_one_module_knows_spark() {
        onlyFrom("org.apache.spark..", "dev.octet.spark..");
        onlyFrom("org.apache.hadoop..", "dev.octet.spark..");
    }

    private static void onlyFrom(String library, String... rooms) {
        noClasses()
                .that()
                .resideOutsideOfPackages(rooms)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(library)
                .allowEmptyShould(true)
                .check(octet);
    }

    @Test
    void only_the_command_line_prints() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.octet.cli..")
                .and()
                .resideOutsideOfPackage("dev.octet.bench..")
                .and()
                .doNotBelongToAnyOf(NativeTrial.class) // answers from a process of its own
                .and()
                .doNotHaveFullyQualifiedName("dev.octet.spark.Submit") // a command line of its own
                .and()
                .doNotHaveFullyQualifiedName("dev.octet.spark.TrainingRank") // so is this
                .and()
                .doNotHaveFullyQualifiedName("dev.octet.trainer.launch.Agent") // mpirun starts it in place of ssh
                .should()
                .accessField(System.class, "out")
                .orShould()
                .accessField(System.class, "err")
                .orShould()
                .callMethod(System.class, "exit", int.class)
                .check(octet);
    }

    @Test
    void names_say_what_a_class_is() {
        for (String ending : BANNED_ENDINGS) {
            classes()
                    .that()
                    .resideOutsideOfPackage("dev.octet.formats.onnx.proto..")
                    .should()
                    .haveSimpleNameNotEndingWith(ending)
                    .because("a name ending with " + ending + " does not say what the class does")
                    .check(octet);
        }
    }

    @Test
    void every_room_says_what_it_is_for_and_is_null_marked() {
        octet.stream()
                .map(JavaClass::getPackage)
                .filter(p -> !p.getName().equals("dev.octet.formats.onnx.proto"))
                .distinct()
                .forEach(p -> assertTrue(
                        p.tryGetPackageInfo()
                                .filter(i -> i.isAnnotatedWith(NullMarked.class))
                                .isPresent(),
                        p.getName() + " has no package-info.java with @NullMarked"));
    }
}
