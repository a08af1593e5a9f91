"""Users, their posts, and their exports."""

from __future__ import annotations

from flask_login import UserMixin
from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship
from werkzeug.security import check_password_hash, generate_password_hash

from blog import db, login


class User(UserMixin, db.Model):  # type: ignore[name-defined,misc]
    """Somebody who writes."""

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    password_hash: Mapped[str] = mapped_column(String(255))
    is_admin: Mapped[bool] = mapped_column(default=False)
    posts: Mapped[list[Post]] = relationship(order_by="Post.id")

    def set_password(self, password: str) -> None:
        """Keep the password's hash."""
        self.password_hash = generate_password_hash(password)

    def has_password(self, password: str) -> bool:
        """Whether this is the password."""
        return check_password_hash(self.password_hash, password)


class Post(db.Model):  # type: ignore[name-defined,misc]
    """What somebody wrote."""

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user.id"), index=True)
    body: Mapped[str] = mapped_column(String(500))


class Export(db.Model):  # type: ignore[name-defined,misc]
    """A file that a user asked for: ``running``, then ``ready`` or ``failed``."""

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user.id"), index=True)
    job_id: Mapped[str | None] = mapped_column(String(40), index=True)
    form: Mapped[str] = mapped_column(String(10))
    status: Mapped[str] = mapped_column(String(20), default="running")
    rows: Mapped[int | None] = mapped_column()


@login.user_loader  # type: ignore[untyped-decorator]
def load_user(id: str) -> User | None:
    """The user of a session."""
    found: User | None = db.session.get(User, int(id))
    return found
