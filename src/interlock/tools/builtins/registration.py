"""Registers the built-in tools. The modes of a file tool follow from its kind: see `tools.files.base`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.memory.authorship import NoteAuthor
from interlock.memory.note_writer import NoteWriter
from interlock.memory.search import MemorySearch
from interlock.questions.service import QuestionService
from interlock.redaction.redactor import Redactor
from interlock.tools.builtins.ask_user import AskUserTool
from interlock.tools.builtins.bash import BashTool
from interlock.tools.builtins.bash_readonly import BashReadonlyTool
from interlock.tools.builtins.complete_step import CompleteStepTool, StepCompleter
from interlock.tools.builtins.current_time import CurrentTimeTool
from interlock.tools.builtins.delegate import DelegateTool, SubtaskRunnerSlot
from interlock.tools.builtins.delete_file import DeleteFileTool
from interlock.tools.builtins.edit_file import EditFileTool
from interlock.tools.builtins.find_files import FindFilesTool
from interlock.tools.builtins.generate_image import GenerateImageTool, ImageServices
from interlock.tools.builtins.get_project_structure import GetProjectStructureTool
from interlock.tools.builtins.list_files import ListFilesTool
from interlock.tools.builtins.memory_append import MemoryAppendTool
from interlock.tools.builtins.memory_search import MemorySearchTool
from interlock.tools.builtins.move_file import MoveFileTool
from interlock.tools.builtins.read_file import ReadFileTool
from interlock.tools.builtins.search_files import SearchFilesTool
from interlock.tools.builtins.write_file import WriteFileTool
from interlock.tools.files.write_checks import WriteServices
from interlock.tools.registry import ToolRegistry
from interlock.tools.shell.tool import ShellServices


@dataclass(frozen=True, slots=True)
class FileServices:
    """The services of the file tools. `rg` is None if the program is missing."""

    redactor: Redactor
    write_services: WriteServices
    rg: Path | None


@dataclass(frozen=True, slots=True)
class MemoryServices:
    """The notes, to search and append. None where tools are only listed.

    `author` reads from the store who or what a session and its task act for.
    """

    search: MemorySearch | None
    writer: NoteWriter | None
    author: Callable[[str, str | None], NoteAuthor] | None


def register_builtins(
    registry: ToolRegistry,
    files: FileServices,
    shell: ShellServices,
    images: ImageServices,
    memory: MemoryServices,
    questions: QuestionService | None,
    steps: StepCompleter | None,
    delegation: SubtaskRunnerSlot,
) -> None:
    for tool in (
        AskUserTool(questions),
        CompleteStepTool(steps),
        DelegateTool(delegation),
        CurrentTimeTool(),
        MemorySearchTool(memory.search),
        MemoryAppendTool(memory.writer, memory.author),
        ListFilesTool(files.redactor),
        FindFilesTool(files.redactor),
        SearchFilesTool(files.redactor, files.rg, shell.backend),
        ReadFileTool(files.redactor),
        GetProjectStructureTool(files.redactor),
        WriteFileTool(files.write_services),
        EditFileTool(files.write_services),
        MoveFileTool(files.write_services),
        DeleteFileTool(files.write_services),
        BashTool(shell),
        BashReadonlyTool(shell),
        GenerateImageTool(images),
    ):
        registry.register(tool)
